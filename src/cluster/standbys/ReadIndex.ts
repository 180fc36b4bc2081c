/**
 * The read index: what a standby must have replayed before it may serve a read, and the proof of it. As in Raft, where a follower asks
 * the leader for its index. docs/cluster.md explains it.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import type * as PgPool from "@effect/sql-pg/PgPool"
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import { type Confirm, makeShared, makeSharedConfirm } from "../confirmReplication.ts"

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

/** Null: the server was promoted, and has a timeline of its own. */
const replayed = "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()::text END AS position"

const hasMark = "SELECT EXISTS (SELECT FROM change_marks WHERE id = $1::uuid) AS here"

/** Milliseconds between two questions. A standby that streams has replayed a commit within a millisecond or two. */
const steps = [1, 1, 2, 4, 8, 16, 32, 36]

/** What is known of a session of a standby. While the server is in recovery, it never goes back. */
interface Replay {
  position: bigint
  mark: string | null
  readonly ask: Effect.Effect<bigint, SqlError>
}

const askPosition = (session: PgConnection.PgConnection) =>
  Effect.map(session.query(replayed), ({ rows: [row] }) => {
    const position = row?.["position"]
    return typeof position === "string" ? walPosition(position) : -1n
  })

/**
 * Whether the standby of a session has replayed an index: see `ReadIndex`. It waits for that, 100 ms at most. A session remembers what it has replayed, so
 * most reads under load ask nothing.
 */
export const makeAwaitReplay = () => {
  const replays = new WeakMap<PgConnection.PgConnection, Replay>()
  const replayOf = (session: PgConnection.PgConnection): Replay => {
    const known = replays.get(session)
    if (known !== undefined) return known
    const replay = { position: -1n, mark: null, ask: makeShared(askPosition(session)) }
    replays.set(session, replay)
    return replay
  }

  const awaitMark = Effect.fnUntraced(function*(session: PgConnection.PgConnection, mark: string) {
    const { rows: [row] } = yield* session.query(hasMark, [mark])
    if (row?.["here"] === true) replayOf(session).mark = mark
    return row?.["here"] === true
  })

  const awaitPosition = Effect.fnUntraced(function*(replay: Replay, wanted: bigint) {
    for (const step of [...steps, null]) {
      const position = yield* replay.ask
      if (position > replay.position) replay.position = position
      if (replay.position >= wanted) return true
      // A promoted server replays nothing more.
      if (position < 0n || step === null) return false
      yield* Effect.sleep(step)
    }
    return false
  })

  return (session: PgConnection.PgConnection, mark: string, position: bigint): Effect.Effect<boolean, SqlError> => {
    const replay = replayOf(session)
    const positionReached = Effect.suspend(() =>
      replay.position >= position ? Effect.succeed(true) : awaitPosition(replay, position)
    )
    return replay.mark === mark
      ? positionReached
      : Effect.flatMap(awaitMark(session, mark), (isHere) => isHere ? positionReached : Effect.succeed(false))
  }
}
