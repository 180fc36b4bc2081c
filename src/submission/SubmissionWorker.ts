/**
 * Sends accepted operations to their providers: each at most once, whatever fails.
 *
 * The order of things is the whole point. A claim moves the operation to `submitting`, and no path leads back to
 * `accepted`, so nobody claims it again. Only when the database has acknowledged the claim, a byte leaves. What came of
 * it is recorded by compare-and-set; where nobody can know, as `indeterminate`.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Provider as ProviderName } from "../domain/Grant.ts"
import { AuthorizationRevoked, type Claim, readDelay, type UnsafeDatabase } from "../domain/Submission.ts"
import { AcceptanceSignal } from "../services/AcceptanceSignal.ts"
import { StoreUnavailable } from "../services/StoreUnavailable.ts"
import { SubmissionQueue } from "../services/SubmissionQueue.ts"
import { abandonable } from "./abandonable.ts"
import { classifyAttempt, passable } from "./Circuit.ts"
import { describeDefect, logFailure } from "./logFailure.ts"
import { makeSlots, runPoller } from "./Poller.ts"
import { NotSent, Uncertain } from "./Provider.ts"
import { Providers } from "./Providers.ts"
import { type Settlement, settlementOf, uncertain } from "./Settlement.ts"
import { SubmissionPolicy, validatePolicy } from "./SubmissionPolicy.ts"
import { withinStore } from "./withinStore.ts"

/** A claim, and when it was asked for: by both clocks, because either may stand still or be set. */
interface HeldClaim {
  readonly provider: ProviderName
  readonly claim: Claim
  readonly askedAt: Instant
}

interface Instant {
  readonly wall: number
  readonly monotonic: bigint
}

export class SubmissionWorker extends Context.Service<SubmissionWorker, {
  /** Claims and sends up to `limit` operations of a provider, and yields how many once all of them are recorded. */
  readonly runOnce: (provider: ProviderName, limit: number) => Effect.Effect<number>
}>()("financial-agents-gateway/submission/SubmissionWorker") {
  /** For tests and for schedulers of one's own: sends nothing unless it is told to. */
  static readonly layerManual = Layer.effect(
    SubmissionWorker,
    Effect.suspend(() =>
      Effect.map(make, ({ claim, send }) =>
        SubmissionWorker.of({
          runOnce: Effect.fnUntraced(function*(provider, limit) {
            const claims = yield* claim(provider, limit)
            yield* Effect.forEach(claims, send, { concurrency: "unbounded", discard: true })
            return claims.length
          })
        }))
    )
  )

  /**
   * Works until its scope closes. Then it claims nothing more, lets running submissions finish for `drainTimeout`, and
   * records the others as `indeterminate`. Refuses to start on a database that could forget what was sent.
   */
  static readonly layer: Layer.Layer<
    never,
    UnsafeDatabase | StoreUnavailable,
    SubmissionQueue | Providers | CircuitBreaker.CircuitBreaker
  > = Layer.effectDiscard(Effect.suspend(() => work))
}

const instant: Effect.Effect<Instant> = Effect.zipWith(
  Clock.currentTimeMillis,
  Clock.monotonicTimeNanos,
  (wall, monotonic) => ({ wall, monotonic })
)

/** Milliseconds since then, by the clock that is further ahead. */
const elapsed = (since: Instant) =>
  Effect.map(
    instant,
    (now) => Math.max(now.wall - since.wall, Number(now.monotonic - since.monotonic) / 1_000_000)
  )

/** While the store is away: soon, then every two seconds. */
const retrySchedule = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")])

const make = Effect.gen(function*() {
  const queue = yield* SubmissionQueue
  const providers = yield* Providers
  const breaker = yield* CircuitBreaker.CircuitBreaker
  const policy = yield* SubmissionPolicy
  const fault = validatePolicy(policy, providers.size)
  if (fault !== null) return yield* Effect.die(new Error(fault))
  const draining = Latch.makeUnsafe(false)
  let drainingSince: Instant | null = null
  const drain = Effect.flatMap(instant, (now) => {
    drainingSince = now
    return Effect.asVoid(draining.open)
  })

  const terms = {
    send_within: policy.sendWithin,
    rescue_after: policy.rescueAfter,
    idle: policy.idle,
    review_after: policy.reviewAfter.accepted
  }

  /** What the database did not acknowledge was not claimed, as far as we are concerned: it is never sent. */
  const claim = Effect.fn("SubmissionWorker.claim")(function*(provider: ProviderName, limit: number) {
    const askedAt = yield* instant
    // A claim is waited for until it would be stale, because what a claim holds that was given up is lost to everybody.
    // Only whoever is to stop gives it up before.
    const hurry = Effect.raceFirst(
      Effect.sleep(policy.rescueAfter),
      Effect.andThen(draining.await, Effect.sleep(policy.storeTimeout))
    ).pipe(Effect.andThen(Effect.fail(new StoreUnavailable({ cause: new Error("no answer in time") }))))
    const claims = yield* Effect.raceFirst(Effect.interruptible(queue.claim(provider, limit, terms)), hurry).pipe(
      // Whatever it was, the next turn may go well.
      Effect.catchCause((cause) => Effect.as(logFailure("Could not claim operations", cause), []))
    )
    return claims.map((claim): HeldClaim => ({ provider, claim, askedAt }))
  })

  /** One attempt, as the circuit of the provider lets it. An open circuit sends nothing. */
  const attempt = ({ askedAt, claim, provider: name }: HeldClaim, payload: Schema.Json) => {
    const provider = providers.get(name)
    if (provider === undefined) {
      return Effect.fail(new NotSent({ reason: `there is no adapter for ${name}`, isLocal: true }))
    }
    // By our own clock, which is the one that the adapter looks at.
    const send_before = DateTime.makeUnsafe(askedAt.wall + Duration.toMillis(policy.sendWithin))
    const answer = abandonable(provider.submit({ ...claim.operation, send_before }, payload)).pipe(
      Effect.catchDefect((defect) => Effect.fail(new Uncertain({ reason: describeDefect(defect) }))),
      Effect.timeoutOrElse({
        duration: policy.attemptTimeout,
        orElse: () => Effect.fail(new Uncertain({ reason: "the provider did not answer in time" }))
      })
    )
    return breaker.execute(answer, { key: name, classify: classifyAttempt }).pipe(
      Effect.catchTag("CircuitBreakerError", ({ reason }) => Effect.fail(new NotSent({ reason: reason._tag })))
    )
  }

  const isInTime = Effect.fnUntraced(function*({ askedAt }: HeldClaim) {
    if ((yield* elapsed(askedAt)) < Duration.toMillis(policy.sendWithin)) return
    return yield* new NotSent({ reason: "it was too late to send", isLocal: true })
  })

  /** Whether the database says that a claim may still be sent. An answer that is older than `storeTimeout` is none. */
  const isAuthorized = Effect.fnUntraced(function*({ claim }: HeldClaim) {
    const askedAt = yield* instant
    const mayStillSend = yield* withinStore(queue.mayStillSend(claim)).pipe(
      Effect.catchCause((cause) =>
        Effect.as(logFailure("Could not ask whether an operation may still be sent", cause), null)
      ),
      Effect.annotateLogs({ operation_id: claim.operation.id })
    )
    if (mayStillSend === false) return yield* new AuthorizationRevoked()
    return mayStillSend === true && (yield* elapsed(askedAt)) < Duration.toMillis(policy.storeTimeout)
  })

  /**
   * Whether an attempt may begin now. The claim itself answers for the first attempt, unless it is older than
   * `storeTimeout`. Before each other attempt the worker asks again: after a revocation nothing is sent but by an attempt
   * that is under way.
   */
  const mayAttempt = Effect.fnUntraced(function*(held: HeldClaim, isFirst: boolean) {
    yield* isInTime(held)
    if (isFirst && (yield* elapsed(held.askedAt)) < Duration.toMillis(policy.storeTimeout)) return true
    const isGood = yield* isAuthorized(held)
    yield* isInTime(held)
    return isGood && (isFirst || !draining.isOpen())
  })

  /** Attempts until one of them sent something, or until nothing may be sent any more. */
  const attempts = Effect.fnUntraced(function*(held: HeldClaim, progress: { isSending: boolean }) {
    const payload = yield* held.claim.payload
    const sendWithin = Duration.toMillis(policy.sendWithin)
    let failure = new NotSent({ reason: "the database did not say whether it may still be sent", isLocal: true })
    let pause = Duration.toMillis(policy.retryDelay)
    for (let isFirst = true;; isFirst = false) {
      if (yield* mayAttempt(held, isFirst)) {
        progress.isSending = true
        const result = yield* Effect.result(attempt(held, payload))
        if (result._tag === "Success") return result.success
        if (result.failure._tag === "Uncertain") return yield* result.failure
        progress.isSending = false
        failure = result.failure
        if (failure.isPermanent === true) return yield* failure
      }
      const wait = pause * (yield* Random.nextBetween(0.5, 1.5))
      if ((yield* elapsed(held.askedAt)) + wait >= sendWithin) return yield* failure
      yield* Effect.raceFirst(Effect.sleep(wait), draining.await)
      if (draining.isOpen()) return yield* failure
      pause = Math.min(pause * 2, 5000)
    }
  })

  const record = Effect.fnUntraced(function*({ askedAt, claim }: HeldClaim, settlement: Settlement) {
    const { operation, revision } = claim
    const { id } = operation
    const due_in = Duration.millis(readDelay(policy.readSchedule, 0, yield* Random.next))
    const { evidence, reference } = settlement
    const recording = { evidence, reference, due_in, send_before: operation.send_before }
    // After that somebody else says that nobody knows. Whoever is to stop does not wait for it.
    const mayRepeat = Effect.gen(function*() {
      const stopping = drainingSince === null ? 0 : yield* elapsed(drainingSince)
      return (yield* elapsed(askedAt)) < Duration.toMillis(policy.rescueAfter)
        && stopping < Duration.toMillis(policy.drainTimeout) + Duration.toMillis(policy.storeTimeout)
    })
    yield* withinStore(queue.record(id, revision, settlement.outcome, recording)).pipe(
      Effect.retry({
        while: (error) => error._tag === "StoreUnavailable" ? mayRepeat : Effect.succeed(false),
        schedule: retrySchedule
      }),
      // It was recorded after all, or rescued meanwhile, or a failover forgot the claim: what we know helps whoever reads
      // the status, and keeps anybody from sending it again.
      Effect.catchTag(
        "StaleOperation",
        () => settlement.isSent ? withinStore(queue.report(id, settlement.reference)) : Effect.void
      ),
      Effect.catchCause((cause) =>
        logFailure("Could not record what became of an operation; it will be rescued", cause)
      ),
      Effect.annotateLogs({ operation_id: id, outcome: settlement.outcome.state })
    )
  })

  const send = (held: HeldClaim): Effect.Effect<void> =>
    Effect.uninterruptibleMask(Effect.fnUntraced(function*(restore) {
      const progress = { isSending: false }
      const exit = yield* Effect.exit(restore(attempts(held, progress)))
      const { id } = held.claim.operation
      const settlement = yield* Effect.try({
        try: () => settlementOf(id, exit, progress.isSending),
        catch: describeDefect
      }).pipe(
        // An answer that is none, of an adapter that nobody checked.
        Effect.catch((reason) => Effect.succeed(uncertain(reason)))
      )
      if (settlement.outcome.state === "indeterminate") {
        yield* Effect.annotateLogs(Effect.logWarning("The outcome of a submission is not known"), {
          operation_id: id,
          provider: held.provider,
          reason: settlement.evidence["reason"]
        })
      }
      yield* record(held, settlement)
    })).pipe(Effect.withSpan("SubmissionWorker.send", { attributes: { operation_id: held.claim.operation.id } }))

  return { claim, send, drain, breaker, policy, providers, queue }
})

const work = Effect.gen(function*() {
  const { breaker, claim, drain, policy, providers, queue, send } = yield* make
  const signal = yield* AcceptanceSignal
  const { moved } = yield* withinStore(queue.prepare, "prepareTimeout")
  if (moved) {
    yield* Effect.logWarning("The ledger lives in another cluster than before: what was accepted is held for review")
  }
  const running = yield* FiberSet.make<void, never>()
  // Finalizers run in reverse: the pollers stop first, then this waits, and what is left then is interrupted.
  yield* Effect.addFinalizer(() =>
    Effect.timeoutOption(Effect.interruptible(FiberSet.awaitEmpty(running)), policy.drainTimeout)
  )
  const slots = makeSlots(policy.concurrency, providers.size)
  const pollers = new Map(
    yield* Effect.forEach(providers.keys(), (name) =>
      Effect.map(
        runPoller({
          slots,
          limit: policy.providerConcurrency,
          pollInterval: policy.pollInterval,
          allowance: (left) => Effect.map(passable(breaker, name), (calls) => Math.min(left, calls)),
          take: (limit) => claim(name, limit),
          handle: send
        }, running),
        (poller) => [name, poller] as const
      ))
  )
  // Before the pollers stop: a claim that hangs would keep them for as long as a claim is waited for.
  yield* Effect.addFinalizer(() => drain)
  yield* signal.announced.pipe(
    Stream.runForEach((name) => pollers.get(name)?.wake ?? Effect.void),
    Effect.forkScoped
  )
})
