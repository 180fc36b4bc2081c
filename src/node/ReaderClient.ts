/**
 * A `SqlClient` for many short reads on few connections. The statements of one turn of the event loop leave in one write
 * per connection, and no statement outlives its answer in memory.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import type { Compiler } from "effect/sql/Statement"
import { makeCloseSilent } from "./closeSilent.ts"
import { ConfirmedConnection } from "./ConfirmedConnection.ts"
import { makeSharedConfirm } from "./confirmReplication.ts"
import { forgetAnswered } from "./forgetAnswered.ts"
import { openPool, spanAttributesOf } from "./openPool.ts"
import { rememberPrepared } from "./rememberPrepared.ts"
import { SessionConnection } from "./SessionConnection.ts"
import { statementTimeout } from "./statementTimeout.ts"

/**
 * Waits until the event loop has read all input that is ready. An interrupted waiter runs nothing.
 *
 * The driver writes the statements of a connection in a microtask. Microtasks run after each request that Node reads, so
 * every request would cost a write of its own. An immediate runs after all of them, and before the loop sleeps.
 */
const makeEndOfTurn = (): Effect.Effect<void> => {
  let waiting: Array<(end: Effect.Effect<void>) => void> = []
  const endTurn = () => {
    const waiters = waiting
    waiting = []
    for (const resume of waiters) resume(Effect.void)
  }
  return Effect.callback((resume) => {
    if (waiting.push(resume) === 1) setImmediate(endTurn)
  })
}

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
const makeConnections = (mustReplicate: boolean, closeSilent: (session: PgConnection.PgConnection) => void) => {
  const connections = new WeakMap<PgConnection.PgConnection, Connection>()
  return (session: PgConnection.PgConnection): Connection => {
    const known = connections.get(session)
    if (known !== undefined) return known
    rememberPrepared(session)
    closeSilent(session)
    const connection = mustReplicate
      ? new ConfirmedConnection(session, makeSharedConfirm(session))
      : new SessionConnection(session)
    connections.set(session, connection)
    return connection
  }
}

const make = Effect.fnUntraced(function*(config: PgClient.PgPoolConfig, name: string, mustReplicate: boolean) {
  const pool = yield* openPool({ ...config, multiplex: true }, name)
  const endOfTurn = makeEndOfTurn()
  const connectionOf = makeConnections(mustReplicate, yield* makeCloseSilent(statementTimeout(config)))
  return yield* SqlClient.make({
    acquirer: Effect.map(pool.get, connectionOf),
    borrower: (run) =>
      Effect.flatMap(endOfTurn, () =>
        pool.use((session) => {
          forgetAnswered(session)
          return run(connectionOf(session))
        })),
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
 * `mustReplicate` it tells each result after its confirmation: see `ConfirmedConnection`.
 */
export const layer = (
  config: PgClient.PgPoolConfig,
  name = "reader",
  mustReplicate = false
): Layer.Layer<SqlClient.SqlClient, SqlError> =>
  Layer.effect(SqlClient.SqlClient, make(config, name, mustReplicate)).pipe(Layer.provide(Reactivity.layer))
