/**
 * A lane for questions to an authorization server: how many may be asked at once, and when to ask none.
 *
 * No question decides about others, because a stranger may have chosen its token so that the server fails on it. A
 * question that fails in a way in which servers fail (5xx, 429, silence) only makes the gateway ask a question of its own,
 * the probe: about the token that was verified last, which this server has answered before. Three probes in a row that
 * fail open the circuit of the lane, and one that is answered closes it.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Schedule from "effect/Schedule"
import type * as Semaphore from "effect/Semaphore"
import { isOutage, ServerFailure, timedOut } from "../http/JsonExchange.ts"

/**
 * Opens after three failed probes in a row, for a second at first and for half a minute at most. Probes that are a minute
 * apart are not in a row. Kept in the process: what one gateway cannot reach, another may.
 */
export const layerIntrospectionCircuit: Layer.Layer<CircuitBreaker.CircuitBreaker> = CircuitBreaker.layer({
  tripPolicy: CircuitBreaker.consecutive(3),
  openDuration: Schedule.min([Schedule.exponential("1 second"), Schedule.spaced("30 seconds")])
}).pipe(Layer.provide(CircuitBreaker.layerStoreMemory({ idleTimeToLive: "1 minute" })))

/** What a probe shows: any answer, a refusal too, that the server is there; a mistake of our own, nothing. */
export const classify = (exit: Exit.Exit<unknown, ServerFailure>): CircuitBreaker.Outcome => {
  if (Exit.isSuccess(exit)) return CircuitBreaker.success
  const error = exit.cause.reasons.find(Cause.isFailReason)?.error
  if (error === undefined) return CircuitBreaker.ignored
  return isOutage(error) ? CircuitBreaker.failure() : CircuitBreaker.success
}

export interface LaneSettings {
  /** Names the lane, also in the log. */
  readonly name: string
  readonly breaker: CircuitBreaker.CircuitBreaker
  /** A question takes one place of each, in this order. */
  readonly places: ReadonlyArray<Semaphore.Semaphore>
  /** How many questions may be asked or wait for a place. */
  readonly most: number
  /** For one question, the wait for its place included. */
  readonly timeout: Duration.Duration
  /** Yields a question that the server is known to answer, or null. */
  readonly probe: Effect.Effect<Effect.Effect<unknown, ServerFailure> | null>
}

export interface Lane {
  /** Asks the question. Fails without asking it when the lane is full or its circuit is open. */
  readonly ask: <A>(question: Effect.Effect<A, ServerFailure>) => Effect.Effect<A, ServerFailure>
}

const notAsked = (reason: string) =>
  Effect.fail(new ServerFailure({ reason: `not asked, because ${reason}`, status: null }))

/**
 * Makes a lane. While there is nothing to probe with, its circuit is left out of account, and its places alone bound the
 * cost: a made-up token would be no probe, because a server that fails on made-up tokens would keep the circuit open.
 */
export const makeLane = ({ breaker, most, name, places, probe, timeout }: LaneSettings): Lane => {
  let inside = 0
  let probing: Deferred.Deferred<void> | null = null

  const inTime = <A>(question: Effect.Effect<A, ServerFailure>) =>
    Effect.timeoutOrElse(question, { duration: timeout, orElse: () => Effect.fail(timedOut) })

  /** Where the state cannot be read, questions go through. */
  const state = Effect.catch(
    breaker.state(name),
    () => Effect.succeed<CircuitBreaker.State>({ _tag: "Closed", key: name })
  )

  const report = Effect.flatMap(state, ({ _tag }) =>
    _tag === "Closed"
      ? Effect.void
      : Effect.logWarning(`Circuit open: ${name}. The server does not answer the gateway's own questions`))

  /** Starts the probe, or joins the one that is under way. It goes on when the request that started it has gone. */
  const startProbe = (question: Effect.Effect<unknown, ServerFailure>) =>
    Effect.uninterruptible(Effect.suspend(() => {
      if (probing !== null) return Effect.succeed(probing)
      const ended = probing = Deferred.makeUnsafe<void>()
      return inTime(question).pipe(
        breaker.execute({ key: name, classify }),
        Effect.tapErrorTag("ServerFailure", (failure) => isOutage(failure) ? report : Effect.void),
        Effect.exit,
        Effect.ensuring(Effect.sync(() => {
          probing = null
          Deferred.doneUnsafe(ended, Effect.void)
        })),
        Effect.forkDetach,
        Effect.as(ended)
      )
    }))

  const suspect = Effect.flatMap(probe, (question) => question === null ? Effect.void : startProbe(question))

  /** Lets the question pass a closed circuit, and has one that may close again probed first. */
  const pass = Effect.gen(function*() {
    const question = yield* probe
    if (question === null) return
    const before = yield* state
    if (before._tag === "Closed") return
    if (before._tag === "Open" && Duration.isGreaterThan(before.retryAfter, Duration.zero)) {
      return yield* notAsked("it did not answer lately")
    }
    yield* Effect.flatMap(startProbe(question), Deferred.await)
    if ((yield* state)._tag !== "Closed") return yield* notAsked("it still does not answer")
  })

  return {
    ask: (question) =>
      Effect.suspend(() => {
        if (inside >= most) return notAsked("too many questions are under way")
        inside++
        let isAsked = false
        const asked = Effect.suspend(() => {
          isAsked = true
          return question
        })
        const placed = places.reduceRight((question, place) => place.withPermit(question), asked)
        return inTime(Effect.andThen(pass, placed)).pipe(
          Effect.tapError((failure) => isAsked && isOutage(failure) ? suspect : Effect.void),
          Effect.ensuring(Effect.sync(() => {
            inside--
          }))
        )
      })
  }
}
