/**
 * Places in the order of changes, and how a reader moves on from one.
 *
 * A transaction gives its changes a position when it makes them, and commits later, in any order. So "all up to here" is never
 * enough: a reader also keeps the positions below its place that were unfinished, and reads them when they have finished.
 */
import type { OperationId } from "../../domain/Operation.ts"

/** A change: the position of its transaction, then the id of the operation. */
export interface ChangePlace {
  readonly position: number
  readonly id: OperationId
}

/** The first id in the order of ids. Every change of a position comes after it. */
export const beforeAllIds = "00000000-0000-0000-0000-000000000000" as OperationId

/** The last id. Every change of a position comes before it. */
export const afterAllIds = "ffffffff-ffff-ffff-ffff-ffffffffffff" as OperationId

/**
 * How far a reader has come. It has seen every change up to `high`, except the later ids of each `pending` position. All of those
 * are below `high`, and in ascending order.
 */
export interface ChangePosition {
  readonly high: ChangePlace
  readonly pending: ReadonlyArray<ChangePlace>
  /**
   * Whether the reader had seen every change that was visible. Otherwise it has passed operations whose next change is still to
   * come.
   */
  readonly isWhole: boolean
}

/** Before every change. */
export const startOfLedger: ChangePosition = { high: { position: 0, id: beforeAllIds }, pending: [], isWhole: true }

/** Which transactions had not finished when the changes were read. */
export interface Unfinished {
  /** The positions of the running transactions, ascending. */
  readonly running: ReadonlyArray<number>
  /** Positions from here on belong to later transactions. */
  readonly upcoming: number
}

/**
 * Most positions that a token keeps: PostgreSQL with its default settings runs fewer transactions. If more are running, the feed
 * waits for the oldest of them.
 */
export const maxPending = 200

/**
 * The position before which the feed may read now. The other unfinished positions then fit into a token.
 */
export const ceilingOf = ({ running, upcoming }: Unfinished): number => running[maxPending] ?? upcoming

/** What a page has read. */
interface PageRead {
  /** The last place that the page looked at, in the order of changes. Null: it found nothing new. */
  readonly last: ChangePlace | null
  /** Whether the page has looked at every new change. Otherwise it ends at `last`. */
  readonly isWhole: boolean
  readonly unfinished: Unfinished
}

/** The position after a page that was read from this position. */
export const advance = (from: ChangePosition, page: PageRead): ChangePosition => ({
  ...placesAfter(from, page),
  // Behind the ceiling there may be more.
  isWhole: page.isWhole && page.unfinished.running.length <= maxPending
})

const placesAfter = (
  from: ChangePosition,
  { isWhole, last, unfinished }: PageRead
): Pick<ChangePosition, "high" | "pending"> => {
  const running = new Set(unfinished.running)
  const isUnfinished = ({ position }: ChangePlace) => running.has(position) || position >= unfinished.upcoming
  if (last === null || last.position < from.high.position) {
    const end = isWhole ? from.high.position : last?.position ?? 0
    // The positions behind the end were not read yet, and at the end itself the ids up to `last`.
    const behind = from.pending.filter(({ position }) => position > end)
    const atEnd = isWhole || last === null ? [] : [last]
    return {
      high: from.high,
      pending: [...from.pending.filter((at) => at.position < end && isUnfinished(at)), ...atEnd, ...behind]
    }
  }
  // A page in an older snapshot than that of the token does not show all of the old place.
  const left = last.position > from.high.position ? [...from.pending, from.high] : from.pending
  const passed = unfinished.running.filter((position) => position > from.high.position && position < last.position)
  return {
    high: last,
    pending: [...left.filter(isUnfinished), ...passed.map((position) => ({ position, id: beforeAllIds }))]
  }
}

/**
 * Whether everything that a reader has seen was there when the mark was recorded. Each position below the `high` of the mark was
 * finished then, except its `pending` ones. Those must be pending for the reader, too.
 *
 * A reader between two pages is never covered. It may have passed an operation because of a later change, which it was still to
 * read. If the failover lost that change, the operation would be back behind the reader.
 */
export const isCovered = (
  { high, isWhole, pending }: ChangePosition,
  mark: { readonly high: number; readonly pending: ReadonlyArray<number> }
): boolean => {
  const unseen = new Set(pending.map(({ position }) => position))
  return isWhole && high.position <= mark.high
    && mark.pending.every((position) => position > high.position || unseen.has(position))
}
