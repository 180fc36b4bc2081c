import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { describeDefect } from "./logFailure.ts"

/**
 * Calls an adapter with a time limit. A defect of the adapter and the end of the time become `unanswered`, with the
 * reason. The caller goes on at the end of the time, also where the adapter cannot be interrupted.
 */
export const callAdapter = <A, E, B, E2>(
  call: Effect.Effect<A, E>,
  timeout: Duration.Duration,
  unanswered: (reason: string) => Effect.Effect<B, E2>
): Effect.Effect<A | B, E | E2> =>
  detached(call).pipe(
    Effect.catchDefect((defect) => unanswered(describeDefect(defect))),
    Effect.timeoutOrElse({ duration: timeout, orElse: () => unanswered("the provider did not answer in time") })
  )

/**
 * Runs the adapter in a fiber of its own. A caller that is interrupted or times out does not wait until the adapter has
 * stopped. An adapter that cannot be interrupted would otherwise hold its slot for ever.
 */
const detached = <A, E>(call: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.flatMap(
    Effect.forkDetach(call, { startImmediately: true }),
    (fiber) => Effect.onInterrupt(Fiber.join(fiber), () => Effect.asVoid(Effect.forkDetach(Fiber.interrupt(fiber))))
  )
