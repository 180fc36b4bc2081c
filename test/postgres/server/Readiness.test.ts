/**
 * /healthz always answers ok, and /readyz answers ok exactly when the gateway can serve. The tests break the database
 * of a gateway on PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { inject } from "vitest"
import { migrate } from "../../../src/services/Migrations.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { NotReady, Readiness } from "../../../src/services/Readiness.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { fixedToken, withServices } from "../../fixtures/HttpFixed.ts"
import { Gateway, gatewayOn } from "../../fixtures/HttpGateway.ts"
import { Observer } from "../../fixtures/HttpObserver.ts"
import { assertProblemOf } from "../../fixtures/HttpProblem.ts"
import { json } from "../../fixtures/HttpWire.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/TestDatabase.ts"

/** A gateway on an empty database, and a client of that database. */
const onEmptyDatabase = <A, E, R>(
  test: (database: string) => Effect.Effect<A, E, R>
) =>
  Effect.scoped(Effect.flatMap(createDatabase({ empty: true }), (database) => {
    const services = Layer.mergeAll(OperationStore.layer, OperationFeed.layer, GrantVerifier.layer, Readiness.layer)
      .pipe(
        Layer.provide(Layer.fresh(layerFor(database, { maxConnections: 2 }))),
        Layer.provide(Platform)
      )
    const client = Layer.fresh(layerFor(database, { maxConnections: 2 }))
    return Effect.provide(test(database), Layer.mergeAll(gatewayOn(services), client, Platform))
  }))

describe("GET /healthz", () => {
  it.live("is 200 with status ok and nothing else, in any state of the database", () =>
    withServices({
      check: Effect.fail(new NotReady({ reason: "no_answer" })),
      find: () => Effect.die("broken"),
      verify: () => Effect.never
    }, ({ send }) =>
      Effect.gen(function*() {
        const answer = yield* send("/healthz")
        assert.strictEqual(answer.status, 200)
        assert.strictEqual(answer.text, "{\"status\":\"ok\"}")
        assert.strictEqual(answer.headers["content-type"], "application/json")
      })))
})

describe("GET /readyz", () => {
  it.live("is 200 with status ok when the gateway can serve", () =>
    withServices({}, ({ send }) =>
      Effect.gen(function*() {
        const answer = yield* send("/readyz")
        assert.deepStrictEqual([answer.status, json(answer)], [200, { status: "ok" }])
      })))

  it.live.each(["no_answer", "migrations_missing"] as const)(
    "is 503 not_ready otherwise, with the reason only in the log: %s",
    (reason) =>
      withServices(
        { check: Effect.fail(new NotReady({ reason })) },
        ({ send }, { causesOf }) =>
          Effect.gen(function*() {
            const answer = yield* send("/readyz", { headers: { "x-request-id": "not-ready" } })
            assertProblemOf(answer, "not_ready")
            assert.strictEqual(answer.headers["retry-after"], "1")
            assert.notInclude(answer.text, reason)
            const causes = causesOf("not-ready")
            assert.deepStrictEqual(causes.map(({ level }) => level), ["WARN"])
            assert.deepStrictEqual(causes[0]!.annotations, { reason, request_id: "not-ready" })
          })
      )
  )

  it.live("is 503 until the last migration is there, and then 200 without a restart", () =>
    onEmptyDatabase(() =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        assertProblemOf(yield* send("/readyz"), "not_ready")
        assert.strictEqual((yield* send("/healthz")).status, 200)
        yield* migrate
        assert.strictEqual((yield* send("/readyz")).status, 200)
        const sql = yield* SqlClient.SqlClient
        yield* sql`
          DELETE FROM financial_agents_gateway_migrations
          WHERE migration_id = (SELECT max(migration_id) FROM financial_agents_gateway_migrations)`
        assertProblemOf(yield* send("/readyz"), "not_ready")
      })
    ))

  it.live("is 503 when the database does not answer, and 200 once it does", () =>
    onEmptyDatabase(() =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        const { causesOf } = yield* Observer
        const sql = yield* SqlClient.SqlClient
        yield* migrate
        const probed = yield* sql.withTransaction(Effect.gen(function*() {
          yield* sql`LOCK TABLE financial_agents_gateway_migrations IN ACCESS EXCLUSIVE MODE`
          return yield* send("/readyz")
        }))
        assertProblemOf(probed, "not_ready")
        const causes = causesOf(probed.headers["x-request-id"]!)
        assert.deepStrictEqual(causes.map(({ annotations }) => annotations["reason"]), ["no_answer"])
        assert.strictEqual((yield* send("/readyz")).status, 200)
      })
    ))

  it.live("is 503 while the connections of the database are cut, and 200 once it takes new ones", () =>
    onEmptyDatabase((database) =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        yield* migrate
        assert.strictEqual((yield* send("/readyz")).status, 200)
        // A session cannot disallow connections to its own database: connect to another one.
        const outside = yield* Layer.build(Layer.fresh(layerFor(inject("postgres").database, { maxConnections: 1 })))
        const sql = Context.get(outside, SqlClient.SqlClient)
        const allow = (yes: boolean) => sql.unsafe(`ALTER DATABASE ${database} ALLOW_CONNECTIONS ${yes}`).unprepared
        yield* allow(false)
        yield* sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${database}`
        const refused = yield* Effect.repeat(send("/readyz"), { until: ({ status }) => status === 503 })
        assertProblemOf(refused, "not_ready")
        yield* allow(true)
        const ready = yield* Effect.repeat(send("/readyz"), { until: ({ status }) => status === 200 })
        assert.deepStrictEqual(json(ready), { status: "ok" })
      })
    ))

  it.live("answers many concurrent probes", () =>
    withServices({}, ({ send }) =>
      Effect.gen(function*() {
        const probes = yield* Effect.forkChild(
          Effect.forEach(Array.from({ length: 100 }), () => send("/readyz"), { concurrency: "unbounded" })
        )
        for (const { status } of yield* Fiber.join(probes)) assert.strictEqual(status, 200)
        assert.strictEqual((yield* send("/v1/operations", { token: fixedToken })).status, 200)
      })))
})
