/**
 * Low-water marks: where a search for due work begins while dead index entries are in its way.
 *
 * A claim, a status read and a rescue leave a dead entry in the index in which they found their operation. PostgreSQL removes
 * dead entries only after every older snapshot has ended. So while a transaction stays open for long, such as that of a backup,
 * a search that begins at the start of the index walks past all work of that time.
 *
 * A search reports how many entries it walked. After a long walk, the process remembers the lowest due time of the operations
 * that are there, and its next searches begin at that mark. An operation below a mark is found late, never lost:
 *
 * - It gets there only if its transaction commits later than `margin` after its due time, or if the clock is set back.
 * - A search from the start follows within 30 seconds (`MarkPolicy`), and sooner if it walks less.
 *
 * The number of entries decides, and not the time of the search. So a busy machine changes nothing.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** A due time as PostgreSQL writes it. */
type DueTime = string

/** The mark of each client queue. A search without client queues uses ''. A queue without a mark is searched from the start. */
export type Marks = ReadonlyMap<string, DueTime>

/** What a search tells of its way. */
export interface Walk {
  /** Entries of the index that the search read, dead ones included. */
  readonly walked: number
  /** New marks. */
  readonly marks: ReadonlyArray<readonly [queue: string, mark: DueTime]>
}

/** When searches begin at marks. */
export interface MarkPolicy {
  /** A search that walks fewer entries always begins at the start. 2,000 entries take one or two milliseconds. */
  readonly longWalk: number
  /** Most milliseconds between two searches from the start. */
  readonly longestPause: number
}

/** The policy of this process. Tests provide others, to search from marks in each case. */
export const MarkPolicy: Context.Reference<MarkPolicy> = Context.Reference(
  "financial-agents-gateway/services/sql/queue/lowWaterMarks/MarkPolicy",
  { defaultValue: () => ({ longWalk: 2000, longestPause: 30_000 }) }
)

/** Milliseconds. An entry takes a microsecond or less, so searches from the start take a thousandth of the time or less. */
const pauseOf = (walked: number): number => walked

/**
 * SQL: the age of an entry that a mark may pass, in milliseconds. Acceptances and outcomes that commit within that time are found
 * at once.
 */
export const margin = 1000

/**
 * SQL: entries of an index that this session has read so far. Only differences count. Zero without the index, or with `track_counts`
 * off: then there are no marks.
 */
export const walkedOf = (index: string): string =>
  `coalesce(pg_stat_get_xact_tuples_returned(to_regclass('${index}')), 0)::float8`

interface LongSearch {
  /** Replaced by a search from the start, so that a search that began before it changes nothing. */
  readonly marks: Map<string, DueTime>
  /** Searches use the marks until the monotonic clock shows this, in milliseconds. */
  readonly until: number
}

/**
 * Makes the function that searches from the marks of a key, such as a provider. `null` asks for a search from the start that need
 * not report marks. The marks are those of one process, and may differ from those of others.
 */
export const makeLowWaterMarks = Effect.gen(function*() {
  const { longWalk, longestPause } = yield* MarkPolicy
  const long = new Map<string, LongSearch>()
  return <A extends Walk, E, R>(key: string, search: (marks: Marks | null) => Effect.Effect<A, E, R>) =>
    Effect.gen(function*() {
      const now = Number(yield* Clock.monotonicTimeNanos) / 1e6
      const known = long.get(key)
      if (known !== undefined && now < known.until) {
        const found = yield* search(known.marks)
        for (const [queue, mark] of found.marks) known.marks.set(queue, mark)
        return found
      }
      const found = yield* search(known === undefined ? null : new Map())
      if (found.walked < longWalk) long.delete(key)
      else {
        // The first long walk need not report marks: the search after it makes them.
        const pause = known === undefined ? 0 : Math.min(longestPause, pauseOf(found.walked))
        long.set(key, { marks: new Map(found.marks), until: now + pause })
      }
      return found
    })
})
