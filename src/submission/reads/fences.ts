/**
 * Fences: proof that a lost request can never arrive. After "not found" the reconciler records that a fence begins. From the next take of
 * the operation on it runs the fence in place of the status read, until the answer is certain: see `fence` of `ProviderAdapter`.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { longestSkew } from "../../domain/ClockSkew.ts"
import type { DueRead } from "../../domain/Submission.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { type ClockReading, elapsed, readClocks } from "../elapsed.ts"
import { callAdapter, passable } from "../providers/Circuit.ts"
import { type FenceAnswer, type NotProven, SendDeadline, StatusAnswer } from "../providers/ProviderAdapter.ts"
import type { ProviderPauses } from "../providers/ProviderPauses.ts"
import { isOfAccount, isSentAs, questionOf } from "../providers/ProviderPromises.ts"
import { withinStore } from "../storeStatements.ts"
import type { SubmissionPolicyShape } from "../SubmissionPolicy.ts"
import type { SubmissionServices } from "../SubmissionServices.ts"

export interface ReadServices extends SubmissionServices {
  readonly pauses: ProviderPauses["Service"]
}

/** An operation to read, and the clocks before the ledger was asked for it: its lease began later. */
export interface TimedRead extends DueRead {
  readonly askedAt: ClockReading
}

/** Requests of a fence after the first, at most: each may wait for a permit, which must not count as the silence of the provider. */
const nextFenceRequests = 4

type Timeouts = Pick<SubmissionPolicyShape, "readTimeout" | "storeTimeout">

/** How long a fence takes, from its first request on. */
export const fenceTimeout = ({ readTimeout, storeTimeout }: Timeouts): Duration.Duration =>
  Duration.sum(readTimeout, Duration.times(storeTimeout, nextFenceRequests))

/** Until when a fence may begin, from `askedAt` on: for the take, the payload, the authorization and the permit. A later one is repeated. */
export const fenceWithin = ({ storeTimeout }: Pick<Timeouts, "storeTimeout">): Duration.Duration =>
  Duration.times(storeTimeout, 4)

/** The lease of a read that may be a fence, with the record of its answer. A person waits for its end: see `validateAskedAt`. */
export const fenceLease = (policy: Timeouts): Duration.Duration =>
  Duration.sum(Duration.sum(fenceWithin(policy), fenceTimeout(policy)), policy.storeTimeout)

/** The fence of the operation, not sent yet. Null: this process has none for it. */
const prepareFence = (
  { policy, providers, statusReads }: ReadServices,
  due: DueRead
): Effect.Effect<Effect.Effect<FenceAnswer> | null, StoreUnavailable> => {
  const adapter = providers.get(due.provider)
  if (adapter?.fence === undefined || !isOfAccount(due, adapter) || !isSentAs(due, adapter)) return Effect.succeed(null)
  const { fence } = adapter
  return withinStore(statusReads.payloadOf(due)).pipe(
    Effect.flatMap((payload) =>
      callAdapter(fence(due.operation, payload), policy.readTimeout, () => Effect.succeed(null))
    ),
    Effect.catchTag(["PayloadUnreadable", "PayloadAltered"], () => Effect.succeed(null))
  )
}

/**
 * Begins a fence after "not found", if the adapter has one for the operation, and the ledger allows it. It sends nothing yet. Yields the
 * operation as it is now if a fence is to settle it, so that no person need ask: the fence has begun, or begins once all clocks agree that
 * `send_before` has passed. Otherwise null.
 */
export const beginFence = Effect.fnUntraced(function*(services: ReadServices, due: DueRead) {
  const { acknowledged, operation: { send_before }, state, taken_at } = due
  // The statement decides. This spares payload and statement while it would refuse.
  if (state !== "indeterminate" || acknowledged || send_before === null) return null
  if (DateTime.isGreaterThanOrEqualTo(send_before, taken_at)) return null
  if ((yield* prepareFence(services, due)) === null) return null
  if (DateTime.isGreaterThanOrEqualTo(DateTime.addDuration(send_before, longestSkew), taken_at)) return due
  const fence_started_at = yield* withinStore(services.statusReads.mayFence(due))
  if (fence_started_at === null) return null
  yield* Effect.logInfo("A fence of an operation began: it is repeated until its answer is certain")
  return { ...due, fence_started_at }
})

const notSent = (detail: string): NotProven =>
  StatusAnswer.NotProven({ reason: "unclear", detail: `no fence was sent: ${detail}` })

/**
 * Yields the fence to send now, or the reason against it. A fence sends an order, so it needs all that a submission needs: a provider that
 * is not paused, and the authorization, no older than `storeTimeout` when it is sent.
 */
export const readyFence = Effect.fnUntraced(function*(
  services: ReadServices,
  due: TimedRead
): Effect.fn.Return<Effect.Effect<FenceAnswer> | NotProven, StoreUnavailable> {
  const { breaker, pauses, policy, providers, statusReads } = services
  const send = yield* prepareFence(services, due)
  if (send === null) {
    const question = questionOf(providers.get(due.provider)?.promises ?? {}, due.operation)
    return { ...notSent("this process has none for the operation"), question }
  }
  const pause = pauses.reasonOf(due.provider)
  if (pause !== null) return notSent(`the provider is paused: ${pause}`)
  if ((yield* passable(breaker, due.provider, "submissions")) === 0) {
    return notSent("the circuit of the provider is open")
  }
  const since = yield* readClocks
  if ((yield* withinStore(statusReads.mayFence(due))) === null) return notSent("nothing allows to send the operation")
  const within = Duration.toMillis(fenceWithin(policy))
  return Effect.flatMap(
    Effect.all([elapsed(since), elapsed(due.askedAt)]),
    ([age, held]) =>
      age < Duration.toMillis(policy.storeTimeout) && held < within
        ? Effect.provideService(send, SendDeadline, due.askedAt.wall + within)
        : Effect.succeed(notSent("its permit came too late"))
  )
})
