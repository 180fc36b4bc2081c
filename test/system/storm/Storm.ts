/**
 * The storm of acceptances: very many concurrent acceptances, most of which repeat a key, some with another request.
 * For each key there must be one operation, which every equal request gets.
 */
import { type Context, Effect } from "effect"
import type { GrantIdentity } from "../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"

export interface StormOptions {
  readonly accepts: number
  /** Number of concurrent callers. */
  readonly callers: number
  /** Acceptances for each key, most of them concurrent. */
  readonly repetitions: number
  /** One ledger for each process that accepts, on connections of its own. Callers are spread over them. */
  readonly processes: ReadonlyArray<Context.Context<OperationLedger>>
  readonly grant: GrantIdentity
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

interface Answer {
  readonly key: number
  readonly variant: number
  readonly id: string | null
  readonly created: boolean
  readonly error: string | null
  readonly millis: number
}

/** One request in ten has another payload under its key. */
const variantOf = (n: number) => n % 10 === 3 ? 1 : 0

/** One request in four repeats an old key. The others repeat a key together with their neighbours. */
const keyOf = (n: number, { repetitions }: StormOptions) => {
  const fresh = Math.floor(n / repetitions)
  return n % 4 === 1 ? (n * 7919) % (fresh + 1) : fresh
}

const percentile = (sorted: ReadonlyArray<number>, share: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0

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

  const accept = Effect.fnUntraced(function*(n: number) {
    const ledger = yield* OperationLedger
    const [key, variant] = [keyOf(n, options), variantOf(n)]
    const start = performance.now()
    const result = yield* Effect.result(ledger.accept(grant, {
      type: "payment",
      key: IdempotencyKey.make(`storm-${key}`),
      payload: { key, variant }
    }))
    answers.push({
      key,
      variant,
      id: result._tag === "Success" ? result.success.operation.id : null,
      created: result._tag === "Success" && result.success.created,
      error: result._tag === "Success" ? null : result.failure._tag,
      millis: performance.now() - start
    })
    options.onAnswer?.()
  })

  const call = (caller: number) =>
    Effect.gen(function*() {
      while (next < accepts) yield* accept(next++)
    }).pipe(Effect.provideContext(processes[caller % processes.length]!))

  const start = performance.now()
  yield* Effect.forEach(Array.from({ length: callers }, (_, caller) => caller), call, {
    concurrency: "unbounded",
    discard: true
  })
  const seconds = (performance.now() - start) / 1000

  const byKey = Map.groupBy(answers, ({ key }) => key)
  const millis = answers.map(({ millis }) => millis).toSorted((a, b) => a - b)
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
