/**
 * The storm of acceptances: very many concurrent acceptances, most of which repeat a key, some with another request.
 * For each key there must be one operation, which every equal request gets.
 */
import { Cause, Context, Effect, Exit } from "effect"
import { percentile } from "../../../../bench/shared/statistics.ts"
import type { GrantIdentity } from "../../../../src/domain/Grant.ts"
import { type FinancialRequest, IdempotencyKey } from "../../../../src/domain/Idempotency.ts"
import { type Accepted, OperationLedger } from "../../../../src/services/OperationLedger.ts"

export interface StormOptions {
  readonly accepts: number
  /** Number of concurrent callers. */
  readonly callers: number
  /** Acceptances for each key, most of them concurrent. */
  readonly repetitions: number
  /** One ledger for each process that accepts, on connections of its own. Callers are spread over them. */
  readonly processes: ReadonlyArray<Context.Context<OperationLedger>>
  readonly grant: GrantIdentity
  /** Every tenth caller accepts batches of this many requests. By default every caller accepts one by one. */
  readonly batch?: number
  /** Follows each acceptance. */
  readonly onAnswer?: () => void
}

export interface StormResult {
  readonly keys: number
  readonly created: number
  readonly replayed: number
  readonly conflicts: number
  readonly seconds: number
  /** Durations of single acceptances, in milliseconds. */
  readonly p50: number
  readonly p99: number
  /** Violations of the rule, in words. */
  readonly violations: ReadonlyArray<string>
}

let forgotten = 0

/** Mistakes to build into the ledger of a process. */
export const controls = {
  "forgotten-keys": {
    meaning: "every thousandth acceptance forgets its key",
    breaks: ["violations"],
    make: (process: Context.Context<OperationLedger>): Context.Context<OperationLedger> => {
      const ledger = Context.get(process, OperationLedger)
      const forgetting = (request: FinancialRequest): FinancialRequest =>
        ++forgotten % 1000 === 0 ? { ...request, key: IdempotencyKey.make(`${request.key}-${forgotten}`) } : request
      return Context.add(process, OperationLedger, {
        ...ledger,
        accept: (grant, request) => ledger.accept(grant, forgetting(request))
      })
    }
  }
}

interface Answer {
  readonly key: number
  readonly variant: number
  readonly id: string | null
  readonly created: boolean
  readonly error: string | null
  /** Null: the request was one of a batch. */
  readonly millis: number | null
}

/** One request in ten has another payload under its key. */
const variantOf = (n: number) => n % 10 === 3 ? 1 : 0

/** One request in four repeats an old key. The others repeat a key together with their neighbours. */
const keyOf = (n: number, { repetitions }: StormOptions) => {
  const fresh = Math.floor(n / repetitions)
  return n % 4 === 1 ? (n * 7919) % (fresh + 1) : fresh
}

/** The violations in the answers for one key. */
const faultsOf = (key: number, answers: ReadonlyArray<Answer>): ReadonlyArray<string> => {
  const faults: Array<string> = []
  const creations = answers.filter(({ created }) => created)
  if (creations.length !== 1) faults.push(`key ${key}: ${creations.length} creations`)
  const [creation] = creations
  for (const { error, id, variant } of answers) {
    const isSame = variant === creation?.variant
    if (isSame && id !== creation?.id) faults.push(`key ${key}: the same request got ${id ?? error}`)
    if (!isSame && error !== "BindingConflict") faults.push(`key ${key}: another request got ${id ?? error}`)
  }
  return faults
}

/** Runs the storm, and checks every answer. */
export const storm = Effect.fnUntraced(function*(options: StormOptions) {
  const { accepts, callers, grant, processes } = options
  const answers: Array<Answer> = []
  let next = 0

  const requestOf = (n: number): FinancialRequest => {
    const [key, variant] = [keyOf(n, options), variantOf(n)]
    return { type: "payment", key: IdempotencyKey.make(`storm-${key}`), payload: { key, variant } }
  }

  const answer = (n: number, result: Exit.Exit<Accepted, { readonly _tag: string }>, millis: number | null) => {
    const failure = Exit.isFailure(result) ? result.cause.reasons.find(Cause.isFailReason)?.error : undefined
    answers.push({
      key: keyOf(n, options),
      variant: variantOf(n),
      id: Exit.isSuccess(result) ? result.value.operation.id : null,
      created: Exit.isSuccess(result) && result.value.created,
      error: Exit.isSuccess(result) ? null : failure?._tag ?? String(result.cause),
      millis
    })
    options.onAnswer?.()
  }

  const accept = Effect.fnUntraced(function*(n: number) {
    const ledger = yield* OperationLedger
    const start = performance.now()
    const result = yield* Effect.exit(ledger.accept(grant, requestOf(n)))
    answer(n, result, performance.now() - start)
  })

  const acceptAll = Effect.fnUntraced(function*(numbers: ReadonlyArray<number>) {
    const ledger = yield* OperationLedger
    const results = yield* Effect.exit(ledger.acceptAll(grant, numbers.map(requestOf)))
    for (const [at, n] of numbers.entries()) {
      answer(n, Exit.isSuccess(results) ? results.value[at]! : Exit.failCause(results.cause), null)
    }
  })

  const call = (caller: number) =>
    Effect.gen(function*() {
      while (next < accepts) {
        if (options.batch === undefined || caller % 10 !== 9) yield* accept(next++)
        else {
          const numbers = Array.from({ length: Math.min(options.batch, accepts - next) }, () => next++)
          yield* acceptAll(numbers)
        }
      }
    }).pipe(Effect.provideContext(processes[caller % processes.length]!))

  const start = performance.now()
  yield* Effect.forEach(Array.from({ length: callers }, (_, caller) => caller), call, {
    concurrency: "unbounded",
    discard: true
  })
  const seconds = (performance.now() - start) / 1000

  const byKey = Map.groupBy(answers, ({ key }) => key)
  const millis = answers.flatMap(({ millis }) => millis ?? []).toSorted((a, b) => a - b)
  const violations = [...byKey].flatMap(([key, answers]) => faultsOf(key, answers))
  const ids = new Set(answers.flatMap(({ id }) => id === null ? [] : [id]))
  if (answers.length !== accepts) violations.push(`${answers.length} answers to ${accepts} requests`)
  if (ids.size !== byKey.size) violations.push(`${ids.size} operations for ${byKey.size} keys`)
  return {
    keys: byKey.size,
    created: answers.filter(({ created }) => created).length,
    replayed: answers.filter(({ created, id }) => id !== null && !created).length,
    conflicts: answers.filter(({ error }) => error === "BindingConflict").length,
    seconds,
    p50: percentile(millis, 0.5),
    p99: percentile(millis, 0.99),
    violations
  } satisfies StormResult
})
