/**
 * The attempts at one submission: each within the send deadline, and none after an attempt that may have sent a byte.
 */
import * as Data from "effect/Data"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type * as Schema from "effect/Schema"
import { longestSkew } from "../../domain/ClockSkew.ts"
import { AuthorizationRevoked } from "../../domain/Submission.ts"
import { type ClockReading, clockSet, elapsed, readClocks } from "../elapsed.ts"
import { callAdapter, classifyAttempt, throughCircuits } from "../providers/Circuit.ts"
import { NotSent, SendDeadline, Uncertain } from "../providers/ProviderAdapter.ts"
import { withinStore } from "../storeStatements.ts"
import { logFailure, logNotSent } from "../submissionLog.ts"
import type { WorkerServices } from "../SubmissionServices.ts"
import type { TimedClaim } from "./claimOperations.ts"

/** Milliseconds: the longest pause between two attempts, before jitter. */
const longestPause = 5000

/** Shared with the caller, which reads it after an interruption. */
export interface AttemptProgress {
  /** Whether an attempt is under way that may have sent a byte. */
  isSending: boolean
}

/** No attempt may begin now. `isDecisive`: this, and not an earlier attempt, is why the operation was not sent. */
class Blocked extends Data.TaggedError("Blocked")<{ readonly reason: string; readonly isDecisive: boolean }> {}

/** A failure of this worker, which returns the claim. */
const local = (reason: string) => new NotSent({ reason, isLocal: true })

const stoppedWaiting = Effect.fail(local("the worker was stopped while the request waited for its turn"))

/**
 * Tries until an attempt sends something, fails locally or can never succeed, or until nothing may be sent any more. It fails
 * with the `NotSent` of the last attempt. The failure is local if there was no attempt, or if the database did not answer. It
 * is local, too, if the worker was stopped between two attempts. The pauses between attempts start at `retryDelay` and double, each
 * shorter or longer by up to half.
 */
export const attemptUntilSent = Effect.fnUntraced(function*(
  services: WorkerServices,
  timed: TimedClaim,
  progress: AttemptProgress
) {
  const { drain, policy } = services
  const payload = yield* timed.claim.payload
  const sendWithin = Duration.toMillis(policy.sendWithin)
  let failure: NotSent | null = null
  let pause = Duration.toMillis(policy.retryDelay)
  for (let isFirst = true;; isFirst = false) {
    const result = yield* Effect.result(
      onceAdmitted(services, timed, tryOnce(services, timed, payload, progress, isFirst))
    )
    if (result._tag === "Success") return result.success
    const error = result.failure
    if (error._tag === "Blocked") {
      if (error.isDecisive || failure === null || failure.isLocal === true) failure = local(error.reason)
    } else if (error._tag === "NotSent" && error.isLocal !== true && error.isPermanent !== true) failure = error
    else return yield* Effect.fail(error)
    const wait = pause * (yield* Random.nextBetween(0.5, 1.5))
    if ((yield* elapsed(timed.askedAt)) + wait >= sendWithin) return yield* endOf(failure)
    yield* Effect.raceFirst(Effect.sleep(wait), drain.begun)
    if (drain.hasBegun()) return yield* local(`the worker was stopped between two attempts; ${failure.message}`)
    pause = Math.min(pause * 2, longestPause)
  }
})

/** A provider that asks for a later request (`Retry-After`) does not end the operation: the claim is returned. */
const endOf = (failure: NotSent): NotSent => failure.retryAfter === undefined ? failure : local(failure.reason)

/** Runs an attempt as soon as the provider has room for it. Returns the claim if answers to others have paused the provider. */
const onceAdmitted = <A, E>(
  services: WorkerServices,
  timed: TimedClaim,
  attempt: Effect.Effect<A, E>
): Effect.Effect<A, E | NotSent> =>
  Effect.suspend(() => {
    const { drain, pauses } = services
    const start = pauses.beginAttempt(timed.provider, timed.probeOf)
    switch (start._tag) {
      case "Begin":
        return Effect.ensuring(attempt, start.end)
      case "Paused":
        return Effect.fail(local(start.reason))
      case "Wait":
        return Effect.andThen(
          Effect.raceFirst(start.until, drain.begun),
          Effect.suspend(() => drain.hasBegun() ? stoppedWaiting : onceAdmitted(services, timed, attempt))
        )
    }
  })

const tryOnce = Effect.fnUntraced(function*(
  services: WorkerServices,
  timed: TimedClaim,
  payload: Schema.Json,
  progress: AttemptProgress,
  isFirst: boolean
) {
  yield* awaitPermit(services, timed, isFirst)
  yield* checkDeadline(services, timed)
  if (!isFirst && services.drain.hasBegun()) {
    return yield* new Blocked({ reason: "the worker was stopped", isDecisive: false })
  }
  progress.isSending = true
  return yield* Effect.tapError(
    attempt(services, timed, payload),
    (error) =>
      Effect.sync(() => {
        if (error._tag === "NotSent" || error._tag === "Blocked") progress.isSending = false
      })
  )
})

/** An adapter without type checks may fail with another error, also with one whose tag is that of an error of this worker. */
const ofAdapter = (error: NotSent | Uncertain): NotSent | Uncertain =>
  error instanceof NotSent || error instanceof Uncertain
    ? error
    : new Uncertain({ reason: "the adapter failed with an error of an unknown kind" })

/** One attempt through the circuits of the provider. An open circuit sends nothing. */
const attempt = (
  { breaker, pauses, policy, providers, requestPermits }: WorkerServices,
  { askedAt, claim, probeOf, provider: name }: TimedClaim,
  payload: Schema.Json
) => {
  const provider = providers.get(name)
  // By the clock of the database, for the provider. The adapter holds bytes back by the clock of this process.
  const send_before = DateTime.addDuration(claim.claimed_at, policy.sendWithin)
  const deadline = askedAt.wall + Duration.toMillis(policy.sendWithin)
  const answer = provider === undefined
    ? Effect.fail(local(`there is no adapter for ${name}`))
    : callAdapter(
      provider.submit({ ...claim.operation, send_before }, payload).pipe(
        Effect.mapError(ofAdapter),
        Effect.provideService(SendDeadline, deadline)
      ),
      policy.attemptTimeout,
      (reason) => Effect.fail(new Uncertain({ reason }))
    )
  const observed = answer.pipe(
    Effect.tapError((error) =>
      error._tag === "NotSent" ? logNotSent(error, { operation_id: claim.operation.id, provider: name }) : Effect.void
    ),
    Effect.tapError(({ retryAfter }) => requestPermits.slowDown(name, retryAfter)),
    Effect.onExit((exit) => pauses.observe(name, probeOf, exit, claim.operation))
  )
  return throughCircuits(breaker, { provider: name, kind: "submissions", classify: classifyAttempt }, observed).pipe(
    Effect.catchTag(
      "CircuitBreakerError",
      ({ reason }) =>
        new Blocked({ reason: `the circuit of the provider let nothing through: ${reason._tag}`, isDecisive: false })
    )
  )
}

/** Fails after the send deadline. Returns the claim if the clock was set since the claim: then nothing proves that it is right. */
const checkDeadline = Effect.fnUntraced(function*({ policy }: WorkerServices, { askedAt }: TimedClaim) {
  if ((yield* elapsed(askedAt)) >= Duration.toMillis(policy.sendWithin)) {
    return yield* new Blocked({ reason: "it was too late to send", isDecisive: false })
  }
  if (Math.abs(yield* clockSet(askedAt)) > longestSkew) {
    return yield* local("the clock of this worker was set after the claim, or the machine was suspended")
  }
})

/**
 * Waits until an attempt may begin: the provider asked for no pause, its limit has a permit, and the database allows the attempt.
 * The claim is returned if no permit comes in time, or if the worker is stopped: that is no failure of the provider.
 */
const awaitPermit = Effect.fnUntraced(function*(services: WorkerServices, timed: TimedClaim, isFirst: boolean) {
  const { drain, policy, requestPermits } = services
  const { askedAt, provider } = timed
  const isLate = (wait: number) =>
    Effect.map(elapsed(askedAt), (age) => age + wait >= Duration.toMillis(policy.sendWithin))
  // The claim itself allows the first attempt.
  let allowedAt = isFirst ? askedAt : null
  let wait = requestPermits.mayWait(provider) ? yield* requestPermits.pauseOf(provider) : 0
  for (;;) {
    yield* checkDeadline(services, timed)
    if (wait > 0) {
      if (yield* isLate(wait)) {
        return yield* local("the provider has no permit for the request until it is too late to send")
      }
      yield* Effect.raceFirst(
        requestPermits.rest(provider, "submissions", Math.min(wait, longestPause)),
        drain.begun
      )
      if (drain.hasBegun()) return yield* stoppedWaiting
    }
    if (allowedAt === null || !(yield* isFresh(policy, allowedAt, requestPermits.horizon(provider)))) {
      allowedAt = yield* askAuthorization(services, timed)
      yield* checkDeadline(services, timed)
    }
    if (!requestPermits.mayWait(provider)) return
    const permit = yield* requestPermits.takePermit(provider, "submissions")
    if (permit._tag === "Unavailable") {
      return yield* new Blocked({
        reason: "the database did not reserve a permit of the provider's limit",
        isDecisive: true
      })
    }
    // The statement that reserves the permit may have taken long.
    if (permit._tag === "Begin" && (yield* isFresh(policy, allowedAt, 0))) return
    wait = permit._tag === "Wait" ? permit.millis : 0
  }
})

/** Whether an authorization will be younger than `storeTimeout` after this wait, in milliseconds. */
const isFresh = ({ storeTimeout }: WorkerServices["policy"], allowedAt: ClockReading, wait: number) =>
  Effect.map(elapsed(allowedAt), (age) => age + wait < Duration.toMillis(storeTimeout))

/**
 * Fails if the database does not allow an attempt now, and yields when it asked. The claim itself allows the first one, unless
 * it is older than `storeTimeout`. Before each other attempt the worker asks: after a revocation, only an attempt that is under
 * way may still send. An answer that took longer than `storeTimeout` counts as none.
 */
const askAuthorization = Effect.fnUntraced(function*(
  { claims, policy }: WorkerServices,
  { claim, provider }: TimedClaim
) {
  const since = yield* readClocks
  const mayStillSend = yield* withinStore(claims.mayStillSend(claim)).pipe(
    Effect.catchCause((cause) =>
      Effect.as(logFailure("Could not ask whether an operation may still be sent; it is not sent for now", cause), null)
    ),
    Effect.annotateLogs({ operation_id: claim.operation.id, provider })
  )
  if (mayStillSend === false) return yield* new AuthorizationRevoked()
  if (mayStillSend === true && (yield* isFresh(policy, since, 0))) return since
  return yield* new Blocked({ reason: "the database did not say in time whether it may be sent", isDecisive: true })
})
