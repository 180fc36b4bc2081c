import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { withinTime } from "../../http/withinTime.ts"
import { describeDefect } from "../logFailure.ts"

/**
 * Calls an adapter with a time limit. A defect of the adapter and the end of the time become `unanswered`, with the reason. The
 * adapter runs in a fiber of its own, so a caller that is interrupted or times out does not wait until the adapter has stopped. An
 * adapter that cannot be interrupted would otherwise hold its capacity for ever.
 */
export const callAdapter = <A, E, B, E2>(
  call: Effect.Effect<A, E>,
  timeout: Duration.Duration,
  unanswered: (reason: string) => Effect.Effect<B, E2>
): Effect.Effect<A | B, E | E2> =>
  withinTime(Effect.catchDefect(call, (defect) => unanswered(describeDefect(defect))), {
    duration: timeout,
    orElse: () => unanswered("the provider did not answer in time"),
    isDetached: true
  })
