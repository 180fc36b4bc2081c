/** A queue of submissions, as the benchmark fills it and watches it. */
import type { Effect } from "effect"
import type { payloadOf } from "./config.ts"

export type Answer = Parameters<typeof payloadOf>[0]

export interface Queue {
  /**
   * Adds `count` submissions and yields their ids. The prefix makes their idempotency keys unique, if the queue has such
   * keys. Workers may begin when the caller's transaction commits.
   */
  readonly fill: (prefix: string, count: number, answer: Answer) => Effect.Effect<ReadonlyArray<string>>
  /** Wakes the workers after the commit, unless `fill` has done so. */
  readonly announce: Effect.Effect<void>
  /** Whether the queue is empty and all its work is done. */
  readonly isDone: Effect.Effect<boolean>
  /** The number of these ids that did not succeed. */
  readonly unsuccessful: (ids: ReadonlyArray<string>) => Effect.Effect<number>
}
