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
import { listBlockers, terminateBlocker } from "./sql/listBlockers.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

/** A session of the database. Members that the role of this session may not see are null. */
export const Blocker = Schema.Struct({
  /** Process id at the server. */
  pid: Schema.Int,
  role: Schema.NullOr(Schema.String),
  application_name: Schema.NullOr(Schema.String),
  /** Null also for a session over a unix socket. */
  client_address: Schema.NullOr(Schema.String),
  /** Such as `active` or `idle in transaction`. */
  state: Schema.NullOr(Schema.String),
  /** Start of its transaction. */
  since: Schema.NullOr(Schema.DateTimeUtcFromString),
  /** Sessions that wait for a lock of this one now. */
  blocks: Schema.Array(Schema.Int),
  /** Sessions for whose locks this one waits itself. */
  waits_for: Schema.Array(Schema.Int)
})
export type Blocker = typeof Blocker.Type

/**
 * How long a change of grants waits for each lock: five seconds, as `revoke_grants` in the database. The server ends a
 * registration of a stopped process earlier.
 */
export const revocationPatience = Duration.seconds(5)

/** Age of the transactions that `GrantsBlocked` names. Ordinary transactions are shorter. */
export const suspiciousAge = Duration.seconds(1)

const nameOf = ({ application_name, pid, role, since }: Blocker): string =>
  [
    `pid ${pid}`,
    role === null ? "" : `role ${role}`,
    application_name === null || application_name === "" ? "" : `application "${application_name}"`,
    since === null ? "" : `in a transaction since ${DateTime.formatIso(since)}`
  ].filter((part) => part !== "").join(", ")

/**
 * A revocation, or another change of grants, did not get a lock within `revocationPatience`. It is the cause of a
 * `StoreUnavailable`. Grants that no session has locked are revoked; the others are not. Repeat the call once the blocking
 * sessions have ended.
 */
export class GrantsBlocked extends Schema.TaggedError<GrantsBlocked>()("GrantsBlocked", {
  blockers: Schema.Array(Blocker)
}) {
  override get message() {
    const names = this.blockers.map(nameOf).join("; ")
    return `the change is not complete: it did not get a lock in time. `
      + (names === "" ? "" : `Sessions that may hold it: ${names}. `)
      + "Run `financial-agents-gateway grants blockers --terminate` to end such sessions, then repeat the change"
  }
}

/**
 * The result of ending a session. `not permitted`: this role may not end it. `waiting`: it waits for another session, which is
 * ended instead.
 */
export const Termination = Schema.Literals(["ended", "running", "not permitted", "waiting"])

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
