/**
 * The database sessions that may hold up a revocation: those whose transaction has written or locked rows of grants.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import { Blocker } from "../domain/operators/GrantsBlocked.ts"
import { listBlockers, terminateBlocker } from "./sql/grants/listBlockers.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

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
