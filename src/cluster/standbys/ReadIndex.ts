/**
 * The read index: what a standby must have replayed before it may serve a read, and the proof of it. As in Raft, where a follower asks
 * the leader for its index. docs/cluster.md explains it.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import type * as PgPool from "@effect/sql-pg/PgPool"
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import { type Confirm, makeSharedConfirm } from "../confirmed/confirmReplication.ts"
import { makeShared } from "../confirmed/makeShared.ts"

/** A place in the history of the primary. */
export interface ReadIndex {
  /** The end of what the primary has flushed: every commit that it has acknowledged is before it. */
  readonly position: bigint
  /**
   * The id of a row that was written on the present timeline of the primary. Positions of two timelines cannot be compared: a standby of
   * an earlier primary may be ahead of this one, and lack its commits. Null: no worker has written the row yet.
   */
  readonly mark: string | null
}

/** The number of a position in the WAL, from its text, such as `16/B374D848`. */
export const walPosition = (text: string): bigint => {
  const [high, low] = text.split("/")
  return (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`)
}

const question = `
  SELECT pg_current_wal_flush_lsn()::text AS position,
    (SELECT m.id::text FROM change_marks m WHERE m.timeline = ledger_timeline()) AS mark`

const ask = (session: PgConnection.PgConnection): Effect.Effect<ReadIndex, SqlError> =>
  Effect.map(session.query(question), ({ rows: [row] }) => ({
    position: walPosition(String(row!["position"])),
    mark: row!["mark"] as string | null
  }))

/** A session of the primary. Reads that need an index at the same time share the question, and its confirmation. */
interface Primary {
  readonly ask: Effect.Effect<ReadIndex, SqlError>
  readonly confirm: Confirm
}

/**
 * Runs a read with an index that was asked for after the call, on a session of `pool`. The result is told only once the same session is
 * confirmed, after the read. That proves that the server was the primary from the question on, and that the synchronous standbys have
 * what the read has seen: no standby is ahead of its primary.
 */
export type UseReadIndex = <A, E>(
  read: (index: ReadIndex) => Effect.Effect<A, E>
) => Effect.Effect<A, E | SqlError>

export const makeUseReadIndex = (pool: PgPool.PgPool): UseReadIndex => {
  const primaries = new WeakMap<PgConnection.PgConnection, Primary>()
  const primaryOf = (session: PgConnection.PgConnection): Primary => {
    const known = primaries.get(session)
    if (known !== undefined) return known
    const primary = { ask: makeShared(ask(session)), confirm: makeSharedConfirm(session) }
    primaries.set(session, primary)
    return primary
  }
  return (read) =>
    pool.use((session) => {
      const primary = primaryOf(session)
      return Effect.tap(Effect.flatMap(primary.ask, read), () => primary.confirm)
    })
}
