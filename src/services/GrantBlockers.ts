/** The database sessions that may hold up a revocation: those whose transaction has written or locked rows of grants. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import { Blocker } from "../domain/operators/GrantsBlocked.ts"
import { orUnavailable, sqlState, type StoreUnavailable } from "./StoreUnavailable.ts"

/**
 * The result of ending a session. `not permitted`: this role may not end it. `waiting`: it waits for another session, which is
 * ended instead.
 */
const Termination = Schema.Literals(["ended", "running", "not permitted", "waiting"])

/** A session, and the result of ending it. */
export const TerminatedBlocker = Schema.Struct({ ...Blocker.fields, termination: Termination })
export type TerminatedBlocker = typeof TerminatedBlocker.Type

/** Lists and ends sessions. The role of this session decides what it sees of others: see docs/postgresql.md, "Roles". */
export class GrantBlockers extends Context.Service<GrantBlockers, {
  /**
   * Sessions that may hold up a revocation, the oldest transaction first. Their transactions are at least this old, or this role
   * may not see the age.
   */
  readonly list: (age: Duration.Duration) => Effect.Effect<ReadonlyArray<Blocker>, StoreUnavailable>
  /**
   * Ends these sessions, except those that wait for another one, such as the revocation itself. Waits five seconds for the
   * end of each.
   */
  readonly terminate: (age: Duration.Duration) => Effect.Effect<ReadonlyArray<TerminatedBlocker>, StoreUnavailable>
}>()("financial-agents-gateway/services/GrantBlockers") {
  static readonly layer: Layer.Layer<GrantBlockers, never, SqlClient.SqlClient> = Layer.effect(
    GrantBlockers,
    Effect.map(SqlClient.SqlClient, (sql) =>
      GrantBlockers.of({
        list: (age) => listBlockers(sql, age),
        terminate: (age) =>
          Effect.flatMap(
            listBlockers(sql, age),
            (blockers) =>
              Effect.forEach(
                blockers,
                (blocker) => Effect.map(terminateBlocker(sql, blocker), (termination) => ({ ...blocker, termination }))
              )
          )
      }))
  )
}

interface BlockerRow extends Omit<Blocker, "since"> {
  readonly since: Date | null
}

/** See `GrantBlockers.list`. */
export const listBlockers = (
  sql: SqlClient.SqlClient,
  age: Duration.Duration
): Effect.Effect<ReadonlyArray<Blocker>, StoreUnavailable> =>
  Effect.map(
    orUnavailable(sql.unsafe<BlockerRow>(listStatement, [Duration.toSeconds(age)])),
    (rows) => rows.map((row) => ({ ...row, since: row.since === null ? null : DateTime.fromDateUnsafe(row.since) }))
  )

const insufficientPrivilege = "42501"

const terminateBlocker = (
  sql: SqlClient.SqlClient,
  blocker: Blocker
): Effect.Effect<typeof Termination.Type, StoreUnavailable> =>
  blocker.waits_for.length > 0 ? Effect.succeed("waiting") : orUnavailable(
    sql.unsafe<{ readonly ended: boolean }>(terminateStatement, [0, blocker.pid]).pipe(
      Effect.map((rows) => rows.every(({ ended }) => ended) ? "ended" as const : "running" as const),
      Effect.catchIf(
        (error) => sqlState(error) === insufficientPrivilege,
        () => Effect.succeed("not permitted" as const)
      )
    )
  )

/**
 * PostgreSQL does not list row locks, but a session that takes one also locks the table, in a mode that shows it. The excluded
 * modes are those of plain reads and of VACUUM: no revocation waits for them. The second part of `suspects` finds the sessions
 * for which the first ones wait.
 */
const listStatement = `
  WITH RECURSIVE suspects AS (
    SELECT l.pid FROM pg_locks l
    WHERE l.granted AND l.locktype = 'relation' AND l.pid <> pg_backend_pid()
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND l.relation = ANY (ARRAY['clients', 'provider_connections', 'grants', 'grant_revocations', 'grant_locks']::regclass[])
      AND l.mode NOT IN ('AccessShareLock', 'ShareUpdateExclusiveLock')
    UNION
    SELECT unnest(pg_blocking_pids(s.pid)) FROM suspects s
  ), waiting AS MATERIALIZED (
    SELECT DISTINCT pid, pg_blocking_pids(pid) AS blocked_by FROM pg_locks WHERE NOT granted
  )
  SELECT a.pid, a.usename::text AS role, a.application_name, host(a.client_addr) AS client_address, a.state,
    a.xact_start AS since, ARRAY(SELECT w.pid FROM waiting w WHERE a.pid = ANY (w.blocked_by)) AS blocks,
    ARRAY(SELECT DISTINCT unnest(pg_blocking_pids(a.pid))) AS waits_for
  FROM suspects JOIN pg_stat_activity a USING (pid)
  WHERE a.xact_start IS NULL OR a.xact_start <= clock_timestamp() - make_interval(secs => $1)
  ORDER BY a.xact_start, a.pid`

/** Lists again, because another session may have the process id by now. */
const terminateStatement = `SELECT pg_terminate_backend(pid, 5000) AS ended FROM (${listStatement}) l WHERE pid = $2`
