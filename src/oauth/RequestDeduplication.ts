/**
 * Deduplicates concurrent requests with the same key.
 */
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"

/** A request that runs `sent` right before it leaves. */
export type DeduplicatedRequest<A, E> = (sent: Effect.Effect<void>) => Effect.Effect<A, E>

/** Sends the request, or waits for a request of the same key that leaves after this call. */
type Deduplicate<A, E> = (key: string, request: DeduplicatedRequest<A, E>) => Effect.Effect<A, E>

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
export const makeRequestDeduplication = <A, E>(maxWait: Duration.Duration): Deduplicate<A, E> => {
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

  return (key, request) =>
    Effect.suspend(() => {
      const earlier = running.get(key)
      if (earlier === undefined || !earlier.isSent) return joinAfter(undefined, key, request)
      const ended = Effect.exit(Deferred.await(earlier.ended))
      return Effect.andThen(Effect.timeoutOption(ended, maxWait), joinAfter(earlier, key, request))
    })
}
