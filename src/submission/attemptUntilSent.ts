/**
 * The attempts at one submission: each within the send deadline, and none after an attempt that may have sent a byte.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type * as Schema from "effect/Schema"
import { AuthorizationRevoked } from "../domain/Submission.ts"
import { callAdapter } from "./callAdapter.ts"
import { classifyAttempt } from "./Circuit.ts"
import type { TimedClaim } from "./claimOperations.ts"
import type { Drain } from "./Drain.ts"
import { elapsed, readClocks } from "./elapsed.ts"
import { logFailure } from "./logFailure.ts"
import { NotSent, Uncertain } from "./ProviderAdapter.ts"
import type { SubmissionServices } from "./SubmissionServices.ts"
import { withinStore } from "./withinStore.ts"

/** Milliseconds: the longest pause between two attempts, before jitter. */
const longestPause = 5000

/** Shared with the caller, which reads it after an interruption. */
export interface AttemptProgress {
  /** Whether an attempt is under way that may have sent a byte. */
  isSending: boolean
}

/**
 * Tries until an attempt sends something, or until nothing may be sent any more. In the second case it fails with the
 * last `NotSent`. The pauses between attempts start at `retryDelay` and double, each shorter or longer by up to half.
 */
export const attemptUntilSent = Effect.fnUntraced(function*(
  services: SubmissionServices,
  drain: Drain,
  timed: TimedClaim,
  progress: AttemptProgress
) {
  const { policy } = services
  const payload = yield* timed.claim.payload
  const sendWithin = Duration.toMillis(policy.sendWithin)
  let failure = new NotSent({ reason: "the database did not say whether it may still be sent", isLocal: true })
  let pause = Duration.toMillis(policy.retryDelay)
  for (let isFirst = true;; isFirst = false) {
    if (yield* mayAttempt(services, drain, timed, isFirst)) {
      progress.isSending = true
      const result = yield* Effect.result(attempt(services, timed, payload))
      if (result._tag === "Success") return result.success
      if (result.failure._tag === "Uncertain") return yield* result.failure
      progress.isSending = false
      failure = result.failure
      if (failure.isPermanent === true) return yield* failure
    }
    const wait = pause * (yield* Random.nextBetween(0.5, 1.5))
    if ((yield* elapsed(timed.askedAt)) + wait >= sendWithin) return yield* failure
    yield* Effect.raceFirst(Effect.sleep(wait), drain.begun)
    if (drain.hasBegun()) return yield* failure
    pause = Math.min(pause * 2, longestPause)
  }
})

/** One attempt through the circuit of the provider. An open circuit sends nothing. */
const attempt = (
  { breaker, policy, providers }: SubmissionServices,
  { askedAt, claim, provider: name }: TimedClaim,
  payload: Schema.Json
) => {
  const provider = providers.get(name)
  if (provider === undefined) {
    return Effect.fail(new NotSent({ reason: `there is no adapter for ${name}`, isLocal: true }))
  }
  // By the clock of this process, because the adapter compares it with the same clock.
  const send_before = DateTime.makeUnsafe(askedAt.wall + Duration.toMillis(policy.sendWithin))
  const answer = callAdapter(
    provider.submit({ ...claim.operation, send_before }, payload),
    policy.attemptTimeout,
    (reason) => Effect.fail(new Uncertain({ reason }))
  )
  return breaker.execute(answer, { key: name, classify: classifyAttempt }).pipe(
    Effect.catchTag("CircuitBreakerError", ({ reason }) => Effect.fail(new NotSent({ reason: reason._tag })))
  )
}

/**
 * Whether an attempt may begin now. The claim itself allows the first attempt, unless it is older than `storeTimeout`.
 * Before each other attempt the worker asks the database again: after a revocation, only an attempt that is under way
 * may still send.
 */
const mayAttempt = Effect.fnUntraced(function*(
  services: SubmissionServices,
  drain: Drain,
  timed: TimedClaim,
  isFirst: boolean
) {
  const { policy } = services
  yield* checkDeadline(services, timed)
  if (isFirst && (yield* elapsed(timed.askedAt)) < Duration.toMillis(policy.storeTimeout)) return true
  const isAllowed = yield* isAuthorized(services, timed)
  yield* checkDeadline(services, timed)
  return isAllowed && (isFirst || !drain.hasBegun())
})

/** Fails with `NotSent` after the send deadline. */
const checkDeadline = Effect.fnUntraced(function*({ policy }: SubmissionServices, { askedAt }: TimedClaim) {
  if ((yield* elapsed(askedAt)) < Duration.toMillis(policy.sendWithin)) return
  return yield* new NotSent({ reason: "it was too late to send", isLocal: true })
})

/**
 * Whether the database allows a claim to be sent. An answer that took longer than `storeTimeout` counts as no. Fails
 * with `AuthorizationRevoked` when the database refuses.
 */
const isAuthorized = Effect.fnUntraced(function*({ policy, queue }: SubmissionServices, { claim }: TimedClaim) {
  const askedAt = yield* readClocks
  const mayStillSend = yield* withinStore(queue.mayStillSend(claim)).pipe(
    Effect.catchCause((cause) =>
      Effect.as(logFailure("Could not ask whether an operation may still be sent; it is not sent for now", cause), null)
    ),
    Effect.annotateLogs({ operation_id: claim.operation.id })
  )
  if (mayStillSend === false) return yield* new AuthorizationRevoked()
  return mayStillSend === true && (yield* elapsed(askedAt)) < Duration.toMillis(policy.storeTimeout)
})
