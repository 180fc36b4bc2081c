import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import { makeShared } from "../confirmed/makeShared.ts"
import { walPosition } from "./ReadIndex.ts"

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
