/** The failure of a change of grants that did not get its locks, with the database sessions that may hold them. */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"

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
