/**
 * The question of a status read to the provider: whether it is asked at all, whether by a read or by a fence, within which time, and through
 * its circuit and its limit.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { ProviderName } from "../../domain/Grant.ts"
import { sentToAccount } from "../../domain/operators/FiguresForm.ts"
import { type DueRead, isFenced } from "../../domain/Submission.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { elapsed, readClocks } from "../elapsed.ts"
import { callAdapter, classifyRead, throughCircuits } from "../providers/Circuit.ts"
import {
  type FenceAnswer,
  NextRequest,
  type NotProven,
  type ProviderAdapter,
  StatusAnswer
} from "../providers/ProviderAdapter.ts"
import {
  isOfAccount,
  mayBeOfAccount,
  questionOf,
  readKind,
  readNeedsPayload,
  unaskedWithoutReference
} from "../providers/ProviderPromises.ts"
import { withinStore } from "../storeStatements.ts"
import type { SubmissionServices } from "../SubmissionServices.ts"
import { fenceTimeout, type ReadServices, readyFence, type TimedRead } from "./fences.ts"

export interface Asked {
  /** Null: nothing was asked, because there is no adapter, or circuit or limit let no read through. */
  readonly answer: StatusAnswer | FenceAnswer | null
  /** The answer is that of the provider. */
  readonly isAsked: boolean
}

/** Asks the provider for the status of an operation, and counts the answer. */
export const askForStatus = Effect.fnUntraced(function*(services: ReadServices, due: TimedRead) {
  const asked = yield* ask(services, due)
  if (asked.isAsked && asked.answer !== null) countRead(services, due.provider, asked.answer)
  return asked
})

const ask = Effect.fnUntraced(
  function*(services: ReadServices, due: TimedRead): Effect.fn.Return<Asked, StoreUnavailable> {
    const adapter = services.providers.get(due.provider)
    const unasked = adapter === undefined ? null : reasonNotToAsk(adapter, due)
    if (unasked !== null) {
      const question = questionOf(adapter!.promises ?? {}, due.operation)
      return { answer: StatusAnswer.NotProven({ reason: "unclear", detail: unasked, question }), isAsked: false }
    }
    if (!isFenced(due)) return { answer: yield* readStatus(services, due), isAsked: true }
    // From the beginning of a fence on, a read by the key may find the order of the fence.
    const fence = yield* readyFence(services, due)
    if (!Effect.isEffect(fence)) return { answer: fence, isAsked: false }
    return { answer: yield* askProvider(services, due, fence), isAsked: true }
  }
)

/** Why a person asks the provider in place of the reconciler. Null: the reconciler asks. */
const reasonNotToAsk = (adapter: ProviderAdapter["Service"], due: DueRead): string | null => {
  if (!mayBeOfAccount(due, adapter)) {
    return `${sentToAccount}${due.provider_account}, and the settings name ${adapter.account ?? "none"}`
  }
  return readKind(adapter.promises ?? {}, due.reference) === "none"
    ? unaskedWithoutReference
    : null
}

export const isUnreachable = (answer: StatusAnswer | FenceAnswer): boolean =>
  answer._tag === "NotProven" && answer.reason === "unreachable"

/** Counts an answer. A read that the circuit does not let through has none. */
const countRead = (
  { metrics }: SubmissionServices,
  provider: ProviderName,
  answer: StatusAnswer | FenceAnswer
): void => {
  if (metrics === null) return
  const isProven = answer._tag === "Proven" || answer._tag === "Occupied"
  const outcome = isUnreachable(answer) ? "unreachable" : isProven ? "proven" : "not_proven"
  metrics.of(provider).reads[outcome].value++
}

const readStatus = (services: SubmissionServices, due: DueRead): Effect.Effect<StatusAnswer | null> => {
  const { operation, provider: name, reference } = due
  const provider = services.providers.get(name)
  if (provider === undefined) return Effect.succeed(null)
  const read = readNeedsPayload(provider, reference)
    ? readWithPayload(provider, due, withinStore(services.statusReads.payloadOf(due)))
    : provider.readStatus(operation, reference)
  const answer = askProvider(services, due, read)
  // Of a lost or older claim the account is not known, or no more than its environment: it may have the operation.
  return isOfAccount(due, provider)
    ? answer
    : Effect.map(answer, (given) => given?._tag === "NotFound" ? { ...given, evidence: null } : given)
}

/** Asks the provider. Yields null when its circuit let no read through, or its limit had no permit for one. */
const askProvider = Effect.fnUntraced(function*<A extends StatusAnswer | FenceAnswer>(
  { breaker, policy, requestPermits }: SubmissionServices,
  due: DueRead,
  call: Effect.Effect<A>
): Effect.fn.Return<A | NotProven | null> {
  const { provider: name } = due
  const permit = awaitPermit(requestPermits, policy, name)
  if (!(yield* permit)) return null
  let isAnswered = false
  const next = Effect.andThen(
    Effect.sync(() => {
      isAnswered = true
    }),
    permit
  )
  const answer = callAdapter<A, never, NotProven, never>(
    Effect.provideService(call, NextRequest, next),
    isFenced(due) ? fenceTimeout(policy) : policy.readTimeout,
    (detail) => Effect.succeed(StatusAnswer.NotProven({ reason: isAnswered ? "unclear" : "unreachable", detail }))
  )
  const observed = Effect.tap(
    answer,
    (given) => given._tag === "NotProven" ? requestPermits.slowDown(name, given.retryAfter) : Effect.void
  )
  return yield* throughCircuits(breaker, { provider: name, kind: "reads", classify: classifyRead }, observed).pipe(
    Effect.catchTag("CircuitBreakerError", () => Effect.succeed(null))
  )
})

/** Reads with the payload of the operation, which this process may be unable to open. */
const readWithPayload = <E extends { readonly message: string }>(
  provider: ProviderAdapter["Service"],
  { operation, reference }: DueRead,
  payload: Effect.Effect<Schema.Json, E>
): Effect.Effect<StatusAnswer> =>
  Effect.flatMap(payload, (opened) => provider.readStatus(operation, reference, opened)).pipe(
    Effect.catch(({ message }) => Effect.succeed(StatusAnswer.NotProven({ reason: "unclear", detail: message })))
  )

/** Waits for a permit of the provider's limit, for `storeTimeout` at most. False: the read comes later. */
const awaitPermit = Effect.fnUntraced(function*(
  requestPermits: SubmissionServices["requestPermits"],
  { storeTimeout }: SubmissionServices["policy"],
  provider: ProviderName
) {
  const since = yield* readClocks
  for (;;) {
    const permit = yield* requestPermits.takePermit(provider, "reads")
    if (permit._tag !== "Wait") return permit._tag === "Begin"
    if ((yield* elapsed(since)) + permit.millis >= Duration.toMillis(storeTimeout)) return false
    yield* requestPermits.rest(provider, "reads", permit.millis)
  }
})
