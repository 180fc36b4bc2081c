/**
 * Sessions that may hold up a revocation, found in the catalogs of PostgreSQL.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { Blocker } from "../../../domain/operators/GrantsBlocked.ts"
import { orUnavailable, sqlState, type StoreUnavailable } from "../../StoreUnavailable.ts"

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

/** Ends a session, unless it waits for another one. */
export const terminateBlocker = (
  sql: SqlClient.SqlClient,
  blocker: Blocker
): Effect.Effect<"ended" | "running" | "not permitted" | "waiting", StoreUnavailable> =>
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
