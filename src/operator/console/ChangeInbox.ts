/**
 * What changed since a page received its last event, as one event: a page that reads slowly fills no memory.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import type { ConsoleChanges } from "./ConsoleApi.ts"

/** Most operations that an event names. */
const maxNamed = 100

/** The event of pages that must read again all that they show. */
export const unnamed: ConsoleChanges = { operations: null }

/** The event for these changes. Null: too many to name them. */
export const eventOf = (operations: ConsoleChanges["operations"]): ConsoleChanges =>
  operations === null || operations.length > maxNamed ? unnamed : { operations }

/** One event for both. Of an operation that both name, the later revision stays. */
const merge = (earlier: ConsoleChanges, later: ConsoleChanges): ConsoleChanges => {
  if (earlier.operations === null || later.operations === null) return unnamed
  return eventOf([
    ...new Map([...earlier.operations, ...later.operations].map((change) => [change.id, change])).values()
  ])
}

export interface ChangeInbox {
  readonly put: (event: ConsoleChanges) => void
  /** It does not end. */
  readonly events: Stream.Stream<ConsoleChanges>
}

export const makeChangeInbox: Effect.Effect<ChangeInbox> = Effect.map(
  Queue.bounded<ConsoleChanges>(1),
  (queue) => ({
    put: (event) => {
      const waiting = Queue.takeUnsafe(queue)
      Queue.offerUnsafe(queue, waiting !== undefined && Exit.isSuccess(waiting) ? merge(waiting.value, event) : event)
    },
    events: Stream.fromQueue(queue)
  })
)
