/**
 * The database sessions that may hold up a revocation: those whose transaction has written or locked rows of grants.
 */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import { orUnavailable, sqlState, type StoreUnavailable } from "./StoreUnavailable.ts"

/** A session of the database. What the own role may not see of it is null. */
export const Blocker = Schema.Struct({
  /** Process id at the server. */
  pid: Schema.Int,
  role: Schema.NullOr(Schema.String),
  application_name: Schema.NullOr(Schema.String),
  /** Null also for a session over a unix socket. */
  client_address: Schema.NullOr(Schema.String),
  /** Such as `active` or `idle in transaction`. */
  state: Schema.NullOr(Schema.String),
  /** When its transaction began. */
  since: Schema.NullOr(Schema.DateTimeUtcFromString),
  /** Sessions that wait for a lock of this one now. */
  blocks: Schema.Array(Schema.Int),
  /** Sessions for whose locks this one waits itself. */
  waits_for: Schema.Array(Schema.Int)
})
export type Blocker = typeof Blocker.Type

/**
 * How long a change of grants waits for each lock that it needs: five seconds, as `revoke_grants` in the database. Longer
 * than the server lets a registration that stopped keep its locks.
 */
export const revocationPatience = Duration.seconds(5)

/** Age of the transactions that are named when a change gave up: what goes on all the time takes less. */
export const suspiciousAge = Duration.seconds(1)

const nameOf = ({ application_name, pid, role, since }: Blocker): string =>
  [
    `pid ${pid}`,
    role === null ? "" : `role ${role}`,
    application_name === null || application_name === "" ? "" : `application "${application_name}"`,
    since === null ? "" : `in a transaction since ${DateTime.formatIso(since)}`
  ].filter((part) => part !== "").join(", ")

/**
 * A revocation, or another change of grants, waited for `revocationPatience` and gave up: the cause of a `StoreUnavailable`.
 * The grants that no session held are revoked already; those that may be held are not. Repeat the call once the blocking
 * sessions have ended.
 */
export class GrantsBlocked extends Schema.TaggedError<GrantsBlocked>()("GrantsBlocked", {
  blockers: Schema.Array(Blocker)
}) {
  override get message() {
    const names = this.blockers.map(nameOf).join("; ")
    return `the change is not complete: it waited in vain for a lock. `
      + (names === "" ? "" : `Sessions that may hold it: ${names}. `)
      + "Run `financial-agents-gateway grants blockers --terminate` to end such sessions, then repeat the change"
  }
}

/** What became of a session that was to end: this role may not end it, or it waits for another one that ends instead. */
export const Termination = Schema.Literals(["ended", "running", "not permitted", "waiting"])

/** A session, and what became of it. */
export const TerminatedBlocker = Schema.Struct({ ...Blocker.fields, termination: Termination })
export type TerminatedBlocker = typeof TerminatedBlocker.Type

/** Lists and ends sessions. What they show of other roles depends on the own one: see docs/postgresql.md, "Roles". */
export class GrantBlockers extends Context.Service<GrantBlockers, {
  /**
   * Sessions that may hold up a revocation, in transactions that began so long ago or whose beginning this role may not
   * see, the oldest first.
   */
  readonly list: (age: Duration.Duration) => Effect.Effect<ReadonlyArray<Blocker>, StoreUnavailable>
  /**
   * Ends these sessions, except those that wait for another one: a revocation that is held up is one of them. Waits five
   * seconds for the end of each.
   */
  readonly terminate: (age: Duration.Duration) => Effect.Effect<ReadonlyArray<TerminatedBlocker>, StoreUnavailable>
}>()("financial-agents-gateway/services/GrantBlockers") {
  static readonly layer: Layer.Layer<GrantBlockers, never, SqlClient.SqlClient> = Layer.effect(
    GrantBlockers,
    Effect.map(SqlClient.SqlClient, (sql) => {
      const end = (blocker: Blocker): Effect.Effect<typeof Termination.Type, StoreUnavailable> =>
        blocker.waits_for.length > 0 ? Effect.succeed("waiting") : orUnavailable(
          sql.unsafe<{ readonly ended: boolean }>(terminateStatement, [0, blocker.pid]).pipe(
            Effect.map((rows) => rows.every(({ ended }) => ended) ? "ended" as const : "running" as const),
            Effect.catchIf(
              (error) => sqlState(error) === insufficientPrivilege,
              () => Effect.succeed("not permitted" as const)
            )
          )
        )
      return GrantBlockers.of({
        list: (age) => listBlockers(sql, age),
        terminate: (age) =>
          Effect.flatMap(
            listBlockers(sql, age),
            (blockers) =>
              Effect.forEach(blockers, (blocker) =>
                Effect.map(end(blocker), (termination) => ({ ...blocker, termination })))
          )
      })
    })
  )
}

const insufficientPrivilege = "42501"

/** See `GrantBlockers.list`. */
export const listBlockers = (
  sql: SqlClient.SqlClient,
  age: Duration.Duration
): Effect.Effect<ReadonlyArray<Blocker>, StoreUnavailable> =>
  Effect.map(
    orUnavailable(sql.unsafe<BlockerRow>(listStatement, [Duration.toSeconds(age)])),
    (rows) => rows.map((row) => ({ ...row, since: row.since === null ? null : DateTime.fromDateUnsafe(row.since) }))
  )

interface BlockerRow extends Omit<Blocker, "since"> {
  readonly since: Date | null
}

/**
 * PostgreSQL does not list row locks, but a session that takes one holds a lock of the table in a mode that tells. The modes
 * that are left out are those of plain reads and of VACUUM: no revocation waits for them. The second part finds the
 * sessions for which these wait.
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

/** Of sessions that are listed still: another may have the process id by now. */
const terminateStatement = `SELECT pg_terminate_backend(pid, 5000) AS ended FROM (${listStatement}) l WHERE pid = $2`
