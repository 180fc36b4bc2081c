/**
 * A `SqlClient` for many short reads on few connections, which they share: see `openSharedPool`.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqlClient from "effect/sql/SqlClient"
import type { Borrower, Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import type { Compiler } from "effect/sql/Statement"
import { ConfirmedConnection } from "../../../cluster/confirmed/ConfirmedConnection.ts"
import { makeSharedConfirm } from "../../../cluster/confirmed/confirmReplication.ts"
import type { StandbyReads } from "../../../cluster/standbys/StandbyReads.ts"
import { spanAttributesOf } from "./openPool.ts"
import { openSharedPool } from "./openSharedPool.ts"
import { SessionConnection } from "./SessionConnection.ts"

/**
 * Compiles each statement anew. The driver's own compiler keeps all statements in a `WeakMap`, although each runs once.
 * Entries of a long-lived `WeakMap` stay until a major collection, so every read would grow the old generation.
 */
const compiler: Compiler = {
  dialect: "pg",
  compile: (statement, withoutTransform) => {
    const [segment] = statement.segments
    return statement.segments.length === 1 && segment?._tag === "Literal"
      ? [segment.value, segment.params ?? []]
      : PgClient.makeCompiler().compile(statement, withoutTransform)
  },
  get withoutTransform() {
    return compiler
  }
}

/** The connection of each session. */
const makeConnections = (mustReplicate: boolean) => {
  const connections = new WeakMap<PgConnection.PgConnection, Connection>()
  return (session: PgConnection.PgConnection): Connection => {
    const known = connections.get(session)
    if (known !== undefined) return known
    const connection = mustReplicate
      ? new ConfirmedConnection(session, makeSharedConfirm(session))
      : new SessionConnection(session)
    connections.set(session, connection)
    return connection
  }
}

const make = Effect.fnUntraced(function*(
  config: PgClient.PgPoolConfig,
  name: string,
  mustReplicate: boolean,
  standbys: StandbyReads | null
) {
  const pool = yield* openSharedPool(config, name)
  const connectionOf = makeConnections(mustReplicate)
  const borrower: Borrower = (run) => pool.use((session) => run(connectionOf(session)))
  return yield* SqlClient.make({
    acquirer: Effect.map(pool.get, connectionOf),
    borrower: standbys === null ? borrower : standbys.before(borrower),
    transactionAcquirer: Effect.map(pool.reserve, connectionOf),
    compiler,
    driver: "pg",
    prepareTransactionControls: true,
    releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
    spanAttributes: spanAttributesOf(config)
  })
})

/**
 * A pool whose statements share connections (`multiplex`). A statement starts when the event loop has read all input that
 * is ready. A transaction has a connection of its own, and its statements start at once. Metrics name the pool `name`. With
 * `mustReplicate` it tells each result after its confirmation: see `ConfirmedConnection`. With `standbys`, they run the statements that
 * they may.
 */
export const layer = (
  config: PgClient.PgPoolConfig,
  name = "reader",
  mustReplicate = false,
  standbys: StandbyReads | null = null
): Layer.Layer<SqlClient.SqlClient, SqlError> =>
  Layer.effect(SqlClient.SqlClient, make(config, name, mustReplicate, standbys)).pipe(Layer.provide(Reactivity.layer))
