/**
 * Waits for changes of the operations that an agent follows. Subscriptions of both versions and `wait_for_operation` share them.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Operation } from "../domain/Operation.ts"
import type { AgentReads, ReadRefused } from "./AgentReads.ts"

/** Most operations that one subscription, or one connection, follows. Each wait begins with a read of all of them. */
export const maxFollowed = 16

/** Seconds of one wait of a subscription. Many load balancers cut connections that are idle for 60 seconds. */
export const longestWait = 50

/** A wait that ends earlier without a change, in milliseconds, shows that the gateway does not let the request wait. */
const shortestWait = (seconds: number): number => Math.min(1000, seconds * 500)

/**
 * The operations that differ from their known form, as `nextAmong` of the reads returns them. Null if the gateway does not let the
 * request wait: it shuts down, or too many requests wait.
 */
export const changesAmong = (
  reads: AgentReads["Service"],
  known: ReadonlyArray<Operation>,
  seconds: number = longestWait
): Effect.Effect<ReadonlyArray<Operation> | null, ReadRefused> =>
  Effect.map(
    Effect.timed(reads.nextAmong(known, seconds)),
    ([took, changed]) => changed.length === 0 && Duration.toMillis(took) < shortestWait(seconds) ? null : changed
  )
