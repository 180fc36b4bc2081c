/**
 * Change tokens take no connection from the reads of others: a forged one runs no statement, and pages that may look at more rows
 * than they return run on the connections of lists, four of a client at once. The tests lock the table, and count statements.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { OperationType } from "../../../src/domain/Operation.ts"
import { ReadServices } from "../../../src/node/GatewayParts.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { Readiness } from "../../../src/services/Readiness.ts"
import { ListClient } from "../../../src/services/sql/reads/SqlOperationStore.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { Gateway, gatewayOn } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf } from "../../fixtures/http/HttpProblem.ts"
import { accept, type Holder, issue } from "../../fixtures/http/HttpScene.ts"
import { countOf, recordedGateway } from "../../fixtures/http/RecordedGateway.ts"
import { accept as acceptFor, issue as issueGrant, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { gatewayDatabase } from "../../fixtures/postgres/GatewayDatabase.ts"
import { openTransaction, whileLocked } from "../../fixtures/postgres/Pools.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"

const feed = "/v1/operations/changes"

const Services = Layer.unwrap(Effect.map(createDatabase(), (database) => {
  const poolNamed = (applicationName: string, multiplex: boolean) =>
    Layer.fresh(layerFor(database, { applicationName, maxConnections: 8, multiplex }))
  const Lists = Layer.effect(
    ListClient,
    Effect.map(Layer.build(poolNamed("lists", false)), (context) => Context.get(context, SqlClient.SqlClient))
  )
  return Layer.merge(
    OperationFeed.layer.pipe(Layer.provide([poolNamed("reads", true), Lists])),
    Layer.mergeAll(OperationStore.layer, GrantVerifier.layer, Readiness.layer, Grants.layer, OperationLedger.layer)
  ).pipe(Layer.provideMerge(layerFor(database)))
})).pipe(Layer.provide(Platform))

const patient = { lifecycle: { deadline: 600_000 }, quiet: true }

/** Waits until these many statements wait for the table, by the connections that they run on. */
const untilWaiting = Effect.fnUntraced(function*(expected: { readonly lists: number; readonly reads: number }) {
  const sql = yield* SqlClient.SqlClient
  while (true) {
    const [row] = yield* sql<{ readonly lists: number; readonly reads: number }>`
      SELECT (count(*) FILTER (WHERE application_name = 'lists'))::int AS lists,
        (count(*) FILTER (WHERE application_name = 'reads'))::int AS reads
      FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
    if (row!.lists === expected.lists && row!.reads === expected.reads) return
  }
})

/** A token of the feed after which a transaction is still running. */
const tokenWithUnfinished = Effect.fnUntraced(function*(holder: Holder) {
  const { send } = yield* Gateway
  const run = yield* openTransaction
  yield* run("SELECT pg_current_xact_id()::text")
  yield* accept(holder)
  const { text } = yield* send(feed, { token: holder.token })
  return (JSON.parse(text) as { readonly next_change_token: string }).next_change_token
})

layer(gatewayOn(Services, patient).pipe(Layer.provideMerge(Services)), { excludeTestServices: true })(
  "A client with fifty pages of changes",
  (it) => {
    it.effect("with filters or unfinished transactions runs four of them at once, away from other reads", () =>
      Effect.gen(function*() {
        const gateway = yield* Gateway
        const [greedy, other] = [yield* issue(), yield* issue()]
        yield* accept(greedy)
        const after = yield* Effect.scoped(tokenWithUnfinished(greedy))
        const start = Effect.fnUntraced(function*({ token }: Holder, target: string) {
          const wire = yield* gateway.wire
          wire.send(`GET ${target} HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer ${token}\r\n\r\n`)
        })
        yield* whileLocked(
          "operations",
          Effect.scoped(Effect.gen(function*() {
            for (let n = 0; n < 25; n++) {
              yield* start(greedy, `${feed}?state=failed`)
              yield* start(greedy, `${feed}?after=${after}`)
            }
            yield* untilWaiting({ lists: 4, reads: 0 })
            yield* start(other, `${feed}?type=payment`)
            yield* untilWaiting({ lists: 5, reads: 0 })
            // A page without either reads no more than it returns.
            yield* start(greedy, feed)
            yield* untilWaiting({ lists: 5, reads: 1 })
          }))
        )
      }))
  }
)

layer(recordedGateway(), { excludeTestServices: true })("A forged change token", (it) => {
  it.effect("is refused before any statement of the feed", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const [holder, other] = [yield* issue(), yield* issue()]
      const { text } = yield* send(feed, { token: other.token })
      const ofOther = (JSON.parse(text) as { readonly next_change_token: string }).next_change_token
      const before = yield* countOf("feed")
      const places = Array.from({ length: 200 }, (_, n) => (n + 1).toString(36)).join(".")
      const forged = [
        ofOther,
        Buffer.from(`1.history.whole.zz.${places}.${"0".repeat(32)}`).toString("base64url"),
        "a".repeat(4096),
        "A"
      ]
      for (const after of forged) {
        const answer = yield* send(`${feed}?after=${after}`, { token: holder.token })
        const { fields } = assertProblemOf(answer, "invalid_request")
        assert.strictEqual(fields?.[0]?.path, "query.after")
      }
      assert.strictEqual(yield* countOf("feed"), before)
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("The services of a process", (it) => {
  it.effect("run slow pages of changes on the connections of lists", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issueGrant()
      yield* acceptFor(identity)
      const page = { type: "payment" as OperationType, states: [], page_size: 10, after: null }
      const waiting = Effect.map(
        sql<{ readonly count: number }>`
          SELECT count(*)::int AS count FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = 'financial-agents-gateway' AND wait_event_type = 'Lock'`,
        ([row]) => row!.count
      )
      yield* Effect.gen(function*() {
        const feed = yield* OperationFeed
        // The lock timeout ends each after a second.
        const again = Effect.forever(Effect.ignore(feed.since(identity, page)))
        yield* whileLocked(
          "operations",
          Effect.scoped(Effect.gen(function*() {
            for (let n = 0; n < 8; n++) yield* Effect.forkScoped(again)
            // More than there are connections of reads, which statements share.
            while ((yield* waiting) < 8);
          }))
        )
      }).pipe(Effect.provide(Layer.fresh(ReadServices).pipe(Layer.provide(gatewayDatabase()))))
    }))
})
