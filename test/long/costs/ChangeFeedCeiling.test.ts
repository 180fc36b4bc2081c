/**
 * With more running transactions than a token keeps, the feed waits for the oldest of them, and skips nothing. The test opens more
 * transactions than the server of the other tests has connections, so it has a server of its own.
 */
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { port, username } from "../../../src/node/embedded/Cluster.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { maxPending } from "../../../src/services/rules/changeToken.ts"
import { feedReader, revisions, submittingStatement } from "../../fixtures/ledger/Changes.ts"
import { accept, issue, outcome } from "../../fixtures/ledger/Ledger.ts"
import { newLedger, runServer, servicesOn } from "../../fixtures/postgres/OwnServer.ts"
import { openTransaction } from "../../fixtures/postgres/Pools.ts"

const running = maxPending + 2

const submit = (id: Parameters<OperationLedger["Service"]["transition"]>[0]) =>
  OperationLedger.use((ledger) => ledger.transition(id, 1, outcome("submitting"), null))

describe("The change feed beside more transactions than a token keeps", () => {
  it.live("waits for the oldest of them, keeps its tokens short, and returns every change once", () =>
    Effect.gen(function*() {
      const cluster = yield* newLedger
      yield* runServer(cluster, { max_connections: String(running + 20) })
      yield* Effect.gen(function*() {
        const { identity } = yield* issue()
        const { operation: slow } = yield* accept(identity)
        const { operation: quick } = yield* accept(identity)
        const readers = [feedReader(identity), feedReader(null)]
        for (const reader of readers) yield* reader.drain()
        const assertNext = Effect.fnUntraced(function*(...expected: ReadonlyArray<string>) {
          for (const reader of readers) {
            assert.deepStrictEqual(revisions(yield* reader.drain()), expected)
            assert.isAtMost((yield* reader.position).pending.length, maxPending)
          }
        })
        const pool = yield* Layer.build(
          PgClient.layer({
            host: cluster.socketDirectory,
            port,
            username,
            database: "postgres",
            maxConnections: running
          })
        )
        const transactions = yield* Effect.provideContext(
          Effect.forEach(
            Array.from({ length: running }),
            () => Effect.tap(openTransaction, (run) => run("SELECT pg_current_xact_id()::text"))
          ),
          pool
        )
        const [first, second] = transactions
        yield* first!(submittingStatement, [slow.id])
        yield* submit(quick.id)
        yield* assertNext()
        const starting = feedReader(null)
        starting.resume(yield* OperationFeed.use(({ now }) => now))
        assert.isAtMost((yield* starting.position).pending.length, maxPending)
        yield* second!("COMMIT")
        yield* transactions[2]!("COMMIT")
        yield* assertNext(`${quick.id} 2`)
        yield* first!("COMMIT")
        yield* assertNext(`${slow.id} 2`)
        assert.sameMembers([...revisions(yield* starting.drain())], [`${slow.id} 2`, `${quick.id} 2`])
      }).pipe(Effect.provide(servicesOn(cluster)))
    }).pipe(Effect.scoped))
})
