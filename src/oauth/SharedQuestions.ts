/**
 * Equal questions at the same time, as one.
 */
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"

/** A question, which runs `sent` when it leaves. */
export type Question<A, E> = (sent: Effect.Effect<void>) => Effect.Effect<A, E>

/** Asks the question of this name, or waits for one that leaves later than now. */
export type Share<A, E> = (name: string, question: Question<A, E>) => Effect.Effect<A, E>

interface Flight<A, E> {
  isSent: boolean
  readonly landed: Deferred.Deferred<A, E>
}

/**
 * Shares questions of equal names. A question that has left already is not shared: its answer may be older than a revocation
 * that the asker has seen. The asker waits for its end, for `patience` at most, and then shares the next question. So each
 * answer is younger than the requests that use it, and equal questions are few at a time, however many ask.
 *
 * A question goes on when its askers have gone: bound its time. It has an entry only while it is under way.
 */
export const makeSharing = <A, E>(patience: Duration.Duration): Share<A, E> => {
  /** The latest question of each name. */
  const flights = new Map<string, Flight<A, E>>()

  const start = (name: string, question: Question<A, E>) =>
    Effect.uninterruptible(Effect.suspend(() => {
      const flight: Flight<A, E> = { isSent: false, landed: Deferred.makeUnsafe() }
      flights.set(name, flight)
      const sent = Effect.sync(() => {
        flight.isSent = true
      })
      const land = (exit: Exit.Exit<A, E>) =>
        Effect.sync(() => {
          if (flights.get(name) === flight) flights.delete(name)
          Deferred.doneUnsafe(flight.landed, exit)
        })
      return question(sent).pipe(Effect.onExit(land), Effect.exit, Effect.forkDetach, Effect.as(flight))
    }))

  /** Shares the latest question unless it is this one. */
  const joinAfter = (earlier: Flight<A, E> | undefined, name: string, question: Question<A, E>) =>
    Effect.suspend(() => {
      const latest = flights.get(name)
      return latest === undefined || latest === earlier ? start(name, question) : Effect.succeed(latest)
    }).pipe(Effect.flatMap(({ landed }) => Deferred.await(landed)))

  return (name, question) =>
    Effect.suspend(() => {
      const earlier = flights.get(name)
      if (earlier === undefined || !earlier.isSent) return joinAfter(undefined, name, question)
      const ended = Effect.exit(Deferred.await(earlier.landed))
      return Effect.andThen(Effect.timeoutOption(ended, patience), joinAfter(earlier, name, question))
    })
}
