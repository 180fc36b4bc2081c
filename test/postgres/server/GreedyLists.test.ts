/**
 * A client with many slow lists or reads of limits delays no other client: four of its reads run at once, and abandoned ones are
 * cancelled. The tests fill a gateway on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Grants } from "../../../src/services/Grants.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { Readiness } from "../../../src/services/Readiness.ts"
import { ListClient } from "../../../src/services/sql/reads/SqlOperationStore.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { Gateway, gatewayOn } from "../../fixtures/http/HttpGateway.ts"
import { accept, type Holder, issue } from "../../fixtures/http/HttpScene.ts"
import { whileLocked } from "../../fixtures/postgres/Pools.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"

/** Lists that sleep in the database for as long as a list may take, on the connections of the lists. Those by key do not. */
const SleepingLists = Layer.effect(
  OperationStore,
  Effect.gen(function*() {
    const store = yield* OperationStore
    const lists = (yield* ListClient)!
    return OperationStore.of({
      ...store,
      list: (grant, query) =>
        query.key === null
          ? Effect.orDie(Effect.as(lists`SELECT pg_sleep(600)`, { json: "[]", count: 0, operations: [], next: null }))
          : store.list(grant, query)
    })
  })
)

const Services = Layer.unwrap(Effect.map(createDatabase(), (database) => {
  const Lists = Layer.effect(
    ListClient,
    Effect.map(
      Layer.build(Layer.fresh(layerFor(database, { applicationName: "lists", maxConnections: 8, multiplex: false }))),
      (context) => Context.get(context, SqlClient.SqlClient)
    )
  )
  return Layer.mergeAll(
    SleepingLists.pipe(Layer.provide(OperationStore.layer), Layer.provide(Lists)),
    OperationFeed.layer,
    GrantVerifier.layer,
    Readiness.layer,
    Grants.layer,
    OperationLedger.layer
  ).pipe(Layer.provideMerge(layerFor(database)))
})).pipe(Layer.provide(Platform))

const patient = { lifecycle: { deadline: 600_000 }, quiet: true }

/** When each running list began. */
const running = SqlClient.SqlClient.use((sql) =>
  sql`
    SELECT query_start::text FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'lists' AND state = 'active' ORDER BY query_start`
)

/** Waits until `count` lists run in the database. */
const untilRunning = Effect.fnUntraced(function*(count: number) {
  while ((yield* running).length !== count);
})

/** Sends a filtered list, or another read, on a connection of its own, which stays open until the scope closes. */
const startList = Effect.fnUntraced(function*({ token }: Holder, target = "/v1/operations?state=failed") {
  const wire = yield* (yield* Gateway).wire
  wire.send(`GET ${target} HTTP/1.1\r\nHost: gateway.test\r\nAuthorization: Bearer ${token}\r\n\r\n`)
})

layer(gatewayOn(Services, patient).pipe(Layer.provideMerge(Services)), { excludeTestServices: true })(
  "A client with fifty slow lists",
  (it) => {
    it.effect("runs four of them at once, while the lists and reads of others are served", () =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        const [greedy, other] = [yield* issue(), yield* issue()]
        const { id } = yield* accept(other)
        yield* Effect.gen(function*() {
          yield* Effect.forEach(Array.from({ length: 50 }), () => startList(greedy))
          yield* untilRunning(4)
          yield* startList(other)
          yield* untilRunning(5)
          assert.strictEqual((yield* send(`/v1/operations/${id}`, { token: other.token })).status, 200)
          assert.strictEqual((yield* send("/readyz")).status, 200)
          // A list by key reads one row, with any filters: it is answered while no list has ended.
          const before = yield* running
          const byKey = "/v1/operations?idempotency_key=rent-of-may&state=failed"
          assert.strictEqual((yield* send(byKey, { token: greedy.token })).status, 200)
          assert.deepStrictEqual(yield* running, before)
        }).pipe(Effect.scoped)
        // Both clients closed their connections. Running lists are cancelled, and waiting ones never start.
        yield* untilRunning(0)
      }))

    it.effect("runs four reads of limits at once, on the connections of the lists", () =>
      Effect.gen(function*() {
        const budgets = [{ currency: "EUR", amount: "900.00", per: "grant" }] as const
        const limited = { authorization_details: [{ type: "financial_operations", budgets }] } as const
        const [greedy, other] = [yield* issue(limited), yield* issue(limited)]
        // The sum of a budget waits for the table.
        yield* whileLocked(
          "operations",
          Effect.scoped(Effect.gen(function*() {
            yield* Effect.forEach(Array.from({ length: 50 }), () => startList(greedy, "/v1/limits"))
            yield* untilRunning(4)
            yield* startList(other, "/v1/limits")
            yield* untilRunning(5)
          }))
        )
        yield* untilRunning(0)
      }))
  }
)
