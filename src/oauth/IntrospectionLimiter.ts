/**
 * A limiter for introspection requests to an authorization server: a concurrency limit, a bounded queue and a circuit breaker.
 *
 * No client's request opens or closes the circuit, because an attacker may choose a token on which the server fails. A
 * request that fails like an outage (5xx, 429, no response) only starts a probe. A probe introspects the token that was
 * verified last, which this server has answered before. Three consecutive failed probes open the circuit of the limiter, and
 * one answered probe closes it.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Layer from "effect/Layer"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import type * as Semaphore from "effect/Semaphore"
import { layerCircuit } from "../http/exchangeLimits.ts"
import { isOutage, ServerFailure, timedOut } from "../http/JsonExchange.ts"
import { makeSharedRun } from "./CachedDocument.ts"
import { makeCallLimit } from "./CallLimit.ts"

/**
 * Opens after three consecutive failed probes, for one second at first and 30 seconds at most. Probes that are a minute
 * apart are not consecutive. The state stays in the process, because another gateway may reach the server.
 */
export const layerIntrospectionCircuit: Layer.Layer<CircuitBreaker.CircuitBreaker> = layerCircuit({
  failures: 3,
  idleTimeToLive: "1 minute"
})

/** Classifies a probe. Every answer of the server is a success, a refusal too. An error of the gateway does not count. */
export const classifyProbe = (exit: Exit.Exit<unknown, ServerFailure>): CircuitBreaker.Outcome => {
  if (Exit.isSuccess(exit)) return CircuitBreaker.success
  const error = exit.cause.reasons.find(Cause.isFailReason)?.error
  if (error === undefined) return CircuitBreaker.ignored
  return isOutage(error) ? CircuitBreaker.failure() : CircuitBreaker.success
}

interface LimiterSettings {
  /** Key of the circuit, and name of the limiter in logs. */
  readonly name: string
  readonly breaker: CircuitBreaker.CircuitBreaker
  /** Concurrency limits. A request takes one permit of each, in this order. */
  readonly limits: ReadonlyArray<Semaphore.Semaphore>
  /** Most requests that run or wait for a permit. */
  readonly maxRequests: number
  /** Limit for one request; waiting for a permit counts. */
  readonly timeout: Duration.Duration
  /** Yields the probe: a request that a healthy server answers. Null if there is none yet. */
  readonly probe: Effect.Effect<Effect.Effect<unknown, ServerFailure> | null>
}

const notSent = (reason: string) =>
  Effect.fail(new ServerFailure({ reason: `the request was not sent, because ${reason}`, status: null }))

/** Fails a request that is one too many. */
export const tooMany = notSent("too many requests are waiting")

const inTime = <A>(request: Effect.Effect<A, ServerFailure>, timeout: Duration.Duration) =>
  Effect.timeoutOrElse(request, { duration: timeout, orElse: () => Effect.fail(timedOut) })

/** The circuit of a limiter. If its state cannot be read, it counts as closed. */
const makeCircuit = ({ breaker, name, timeout }: LimiterSettings) => {
  const { start } = makeSharedRun()

  const state = Effect.catch(
    breaker.state(name),
    () => Effect.succeed<CircuitBreaker.State>({ _tag: "Closed", key: name })
  )

  const logIfOpen = Effect.flatMap(state, ({ _tag }) =>
    _tag === "Closed"
      ? Effect.void
      : Effect.logWarning(`Circuit open: ${name}. The authorization server does not answer the gateway's probes`))

  /** Starts a probe, or joins the running one. */
  const startProbe = (probe: Effect.Effect<unknown, ServerFailure>) =>
    start(
      inTime(probe, timeout).pipe(
        breaker.execute({ key: name, classify: classifyProbe }),
        Effect.tapErrorTag("ServerFailure", (failure) => isOutage(failure) ? logIfOpen : Effect.void)
      )
    )

  return { state, startProbe }
}

/**
 * Makes a limiter: a function that sends a request, or fails without sending it if the limiter is full or its circuit is open. While there
 * is no probe, the limiter ignores its circuit, and only its limits bound the cost. An invented token would be no probe: a server that
 * fails on invented tokens would keep the circuit open.
 */
export const makeLimiter = (settings: LimiterSettings) => {
  const { limits, maxRequests, name, probe, timeout } = settings
  const { startProbe, state } = makeCircuit(settings)
  const within = makeCallLimit({ max: maxRequests }, tooMany)

  const startProbeIfAny = Effect.flatMap(probe, (request) => request === null ? Effect.void : startProbe(request))

  /** Passes if the circuit is closed. After the open time, it first waits for a probe. */
  const passCircuit = Effect.gen(function*() {
    const request = yield* probe
    if (request === null) return
    const before = yield* state
    if (before._tag === "Closed") return
    if (before._tag === "Open" && Duration.isGreaterThan(before.retryAfter, Duration.zero)) {
      return yield* notSent("the server did not answer recently")
    }
    yield* Effect.flatMap(startProbe(request), Deferred.await)
    if ((yield* state)._tag !== "Closed") return yield* notSent("the server still does not answer")
  })

  return <A>(request: Effect.Effect<A, ServerFailure>): Effect.Effect<A, ServerFailure> =>
    Effect.suspend(() => {
      let isSent = false
      const sent = Effect.suspend(() => {
        isSent = true
        return request
      })
      const limited = limits.reduceRight((request, limit) => limit.withPermit(request), sent)
      return within(
        name,
        Effect.tapError(
          inTime(Effect.andThen(passCircuit, limited), timeout),
          (failure) => isSent && isOutage(failure) ? startProbeIfAny : Effect.void
        )
      )
    })
}

/** A request that runs `sent` right before it leaves. */
export type DeduplicatedRequest<A, E> = (sent: Effect.Effect<void>) => Effect.Effect<A, E>

interface RunningRequest<A, E> {
  isSent: boolean
  readonly ended: Deferred.Deferred<A, E>
}

/**
 * Makes a deduplication. Calls with the same key share a request until it leaves. A call never shares a request that has
 * left, because the answer may be older than a revocation that the caller has seen. It waits for the end of that request,
 * at most `maxWait`, and then shares the next one. Each answer is thus newer than the calls that use it, and the number of
 * concurrent requests per key stays small.
 *
 * A request continues when its callers have gone: limit its time. It uses memory only while it runs.
 */
export const makeRequestDeduplication = <A, E>(maxWait: Duration.Duration) => {
  /** The latest request of each key. */
  const running = new Map<string, RunningRequest<A, E>>()

  const start = (key: string, request: DeduplicatedRequest<A, E>) =>
    Effect.uninterruptible(Effect.suspend(() => {
      const started: RunningRequest<A, E> = { isSent: false, ended: Deferred.makeUnsafe() }
      running.set(key, started)
      const sent = Effect.sync(() => {
        started.isSent = true
      })
      const end = (exit: Exit.Exit<A, E>) =>
        Effect.sync(() => {
          if (running.get(key) === started) running.delete(key)
          Deferred.doneUnsafe(started.ended, exit)
        })
      return request(sent).pipe(Effect.onExit(end), Effect.exit, Effect.forkDetach, Effect.as(started))
    }))

  /** Shares the latest request, unless it is `earlier`. */
  const joinAfter = (earlier: RunningRequest<A, E> | undefined, key: string, request: DeduplicatedRequest<A, E>) =>
    Effect.suspend(() => {
      const latest = running.get(key)
      return latest === undefined || latest === earlier ? start(key, request) : Effect.succeed(latest)
    }).pipe(Effect.flatMap(({ ended }) => Deferred.await(ended)))

  /** Sends the request, or waits for a request of the same key that leaves after this call. */
  return (key: string, request: DeduplicatedRequest<A, E>): Effect.Effect<A, E> =>
    Effect.suspend(() => {
      const earlier = running.get(key)
      if (earlier === undefined || !earlier.isSent) return joinAfter(undefined, key, request)
      const ended = Effect.exit(Deferred.await(earlier.ended))
      return Effect.andThen(Effect.timeoutOption(ended, maxWait), joinAfter(earlier, key, request))
    })
}
