/**
 * Notices a ledger that went back: to an earlier timeline, to another timeline of the same number, or to an earlier state of the same one. A
 * cluster manager with a fault does that, and so does a disk that was put back. Claims since then are forgotten, so operations that
 * were sent look unsent. A database cannot notice it: each process with workers remembers how far the ledger had come.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as SqlClient from "effect/sql/SqlClient"
import type { HistoryReports, HoldAllIf } from "../services/queue/LedgerHistory.ts"
import { orUnavailable, StoreUnavailable } from "../services/StoreUnavailable.ts"

/** How far the ledger of a server had come. */
export interface LedgerPlace {
  /** The cluster and the database that the ledger names as its home. Each has timelines of its own. */
  readonly home: string
  readonly timeline: number
  /** Bytes of WAL that the server keeps, from the beginning of all timelines. */
  readonly flushed: number
  /** The id of the first mark of each timeline: where the timeline began, as far as the ledger knows. */
  readonly marks: Readonly<Record<string, string>>
  /** Whether the ledger was compared with its witness in this life of the server. Null: it has no witness. */
  readonly is_compared: boolean | null
}

/** A row of a claim, with the column below. */
interface Placed {
  readonly place: LedgerPlace
}

/** A scalar subquery. PostgreSQL runs it once a statement. Marks are few: one for each failover. */
const placeColumn = `, (SELECT json_build_object(
    'home', concat_ws('/', h.system_identifier, h.database, h.operations_oid),
    'timeline', ledger_timeline(),
    'flushed', pg_current_wal_flush_lsn() - '0/0'::pg_lsn,
    'marks', (SELECT json_object_agg(timeline, id) FROM change_marks),
    'is_compared', CASE WHEN h.epoch IS NOT NULL THEN coalesce(h.epoch_life = ledger_life(), false) END
  ) FROM ledger_home h) AS place`

/**
 * Whether the ledger at `now` can have forgotten something that it knew at `before`. A ledger that moved to another home has rules of its
 * own: nothing is claimed before a worker has started there, and its start holds all operations. A witness proves more than this.
 */
export const isBehind = (now: LedgerPlace, before: LedgerPlace): boolean => {
  if (now.home !== before.home || now.is_compared === true) return false
  if (now.timeline < before.timeline) return true
  const mark = before.marks[before.timeline]
  if (mark !== undefined && now.marks[before.timeline] !== mark) return true
  return now.timeline === before.timeline && now.flushed < before.flushed
}

/** So many looks in a row find the ledger behind before it is held. Meanwhile the sessions of a superseded server end. */
const patience = 10

const wentBack = () =>
  new StoreUnavailable({ cause: new Error("the ledger is behind what this process has seen of it") })

export const makeHistoryGuard = (holdAllIf: HoldAllIf) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    let known: LedgerPlace | null = null
    /** Looks in a row that found the ledger behind. A claim that did counts as one look at most. */
    let looksBehind = 0
    let isHolding = false
    /** A claim failed, and none has succeeded after a probe since. */
    let isDoubtful = false

    const askPlace = Effect.map(
      sql.unsafe<Placed>(`SELECT 1${placeColumn}`),
      ([row]) => row!.place
    )
    const look = orUnavailable(askPlace)

    /** What a statement said of the place. `before` was known when it left: answers may overtake each other. */
    const learn = (place: LedgerPlace, before: LedgerPlace | null): Effect.Effect<void, StoreUnavailable> => {
      if (before !== null && isBehind(place, before)) {
        // After a hold meanwhile, the process goes on from there.
        if (known === before) looksBehind = Math.max(1, looksBehind)
        return Effect.fail(wentBack())
      }
      if (known === before || known === null || isBehind(known, place)) known = place
      return Effect.void
    }

    /** Fails if the database does not answer, or if the ledger is behind. It changes nothing. */
    const probe = Effect.suspend(() => {
      const before = known
      return Effect.flatMap(look, (place) => looksBehind > 0 ? Effect.fail(wentBack()) : learn(place, before))
    })

    /**
     * Runs a claim, whose rows have the place, and refuses it if the server is behind. It may then have happened there, and is not sent.
     * So after a failure it asks with a statement that changes nothing first: otherwise each try could use up operations.
     */
    const claimed = <Row>(
      statement: Effect.Effect<ReadonlyArray<Row>, StoreUnavailable>
    ): Effect.Effect<ReadonlyArray<Row>, StoreUnavailable> => {
      const checked = Effect.suspend(() => {
        const before = known
        return Effect.tap(statement, (rows) => learn((rows[0] as Placed).place, before))
      })
      return Effect.suspend(() => {
        const isProbed = isDoubtful || looksBehind > 0
        return Effect.onExit(isProbed ? Effect.andThen(probe, checked) : checked, (exit) =>
          Effect.sync(() => {
            if (Exit.isFailure(exit)) isDoubtful = true
            else if (isProbed) isDoubtful = false
          }))
      })
    }

    /** It may take minutes, and the look that began it does not wait for it. */
    const hold = Effect.fnUntraced(function*(before: LedgerPlace) {
      // On the same session as the hold: another one may lead to another server.
      let place = before
      const isStillBehind = Effect.map(askPlace, (asked) => {
        place = asked
        return isBehind(asked, before)
      })
      const changed = yield* holdAllIf(isStillBehind)
      if (changed === null) return
      known = place
      looksBehind = 0
      yield* Effect.annotateLogs(
        Effect.logError("The ledger went back, and may have forgotten claims: all accepted operations are held"),
        {
          operations: changed.held,
          indeterminate: changed.indeterminate,
          timeline: place.timeline,
          earlier_timeline: before.timeline
        }
      )
    })

    /** Looks where the ledger is. Holds all accepted operations once it stays behind, and goes on from there. */
    const watch = Effect.gen(function*() {
      const before = known
      const place = yield* look
      // A claim or a hold learned more meanwhile.
      if (known !== before) return
      if (before === null || !isBehind(place, before)) {
        known = place
        looksBehind = 0
        return
      }
      if (++looksBehind < patience || isHolding) return
      isHolding = true
      yield* Effect.forkDetach(Effect.ensuring(
        hold(before),
        Effect.sync(() => {
          isHolding = false
        })
      ))
    })

    return { column: placeColumn, claimed, watch } satisfies HistoryReports
  })
