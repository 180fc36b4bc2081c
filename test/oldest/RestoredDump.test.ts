/**
 * A dump that is restored into its own database forgets claims, and has the same cluster and database as before. The tests run pg_dump and
 * pg_restore of the server's version.
 */
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { makeHistoryGuard } from "../../src/cluster/historyGuard.ts"
import { LedgerHistory } from "../../src/services/queue/LedgerHistory.ts"
import { accept, issue, PostgresServices } from "../fixtures/ledger/Ledger.ts"
import { claimIds } from "../fixtures/ledger/Queue.ts"
import { Queue } from "../fixtures/ledger/QueueServices.ts"
import { createDatabase, layerFor, Platform, server } from "../fixtures/postgres/TestDatabase.ts"

const processOn = (database: string) =>
  Layer.fresh(PostgresServices).pipe(
    Layer.provide(Layer.succeed(LedgerHistory, makeHistoryGuard)),
    Layer.provideMerge(Layer.fresh(layerFor(database, { maxConnections: 1 }))),
    Layer.provideMerge(Platform)
  )

const [programs] = fs.globSync("/usr/lib/postgresql/*/bin").toSorted()

it.live("A dump that is restored into its own database lets no process send a forgotten claim again", () =>
  Effect.gen(function*() {
    const database = yield* createDatabase()
    const { host, port, username } = server()
    const run = (program: string, args: ReadonlyArray<string>, input?: Buffer) =>
      execFileSync(
        `${programs}/${program}`,
        [...args, `--host=${host}`, `--port=${port}`, `--username=${username}`],
        input === undefined ? {} : { input }
      )
    yield* Effect.gen(function*() {
      const queue = yield* Queue
      assert.deepStrictEqual(yield* queue.prepare, { moved: false })
      const { grant, identity } = yield* issue()
      const { operation: { id } } = yield* accept(identity)
      const dump = run("pg_dump", ["--format=custom", database])
      assert.deepStrictEqual(yield* claimIds(grant.provider), [id])
      run("pg_restore", ["--clean", "--if-exists", `--dbname=${database}`], dump)
      assert.deepStrictEqual(yield* claimIds(grant.provider), [], "by the process that sent it")
      yield* Effect.gen(function*() {
        const queue = yield* Queue
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(yield* queue.prepare, { moved: true })
        assert.deepStrictEqual(yield* claimIds(grant.provider), [], "by the next one")
        const rows = yield* sql`SELECT state, hold_placed, is_unsent(o) AS unsent FROM operations o WHERE id = ${id}`
        assert.deepStrictEqual(rows, [{ state: "accepted", hold_placed: true, unsent: false }])
        assert.deepStrictEqual(yield* queue.prepare, { moved: false })
      }).pipe(Effect.provide(processOn(database)))
    }).pipe(Effect.provide(processOn(database)))
  }).pipe(Effect.scoped))
