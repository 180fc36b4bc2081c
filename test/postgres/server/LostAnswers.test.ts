/**
 * A client whose connection is cut after the commit finds its operation by the key, and a repetition returns the same one. The
 * test pays hundreds of times over TCP, and loses each first answer, to an application on PostgreSQL.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Logger, Redacted } from "effect"
import { FetchHttpClient, HttpServer } from "effect/http"
import { isInetAddress } from "effect/net/NetAddress"
import { SqlClient } from "effect/sql"
import { createServer } from "node:http"
import { GatewayClient, makeClient } from "../../../src/api/Client.ts"
import { operationsRead } from "../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import { BaseUrl } from "../../../src/server/gate/BaseUrl.ts"
import { Lifecycle } from "../../../src/server/gate/Lifecycle.ts"
import { layerServer } from "../../../src/server/Gateway.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { PostgresServices } from "../../fixtures/http/HttpGateway.ts"
import { baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { openWire } from "../../fixtures/http/HttpWire.ts"
import { paymentsWrite, TeamApi, TeamRoutes } from "../../fixtures/http/TeamPayments.ts"
import { issue } from "../../fixtures/ledger/Ledger.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { proxyTo } from "../../fixtures/processes/Proxy.ts"

const times = rounds(80, 1000)
const clients = 16

const Application = layerServer(TeamRoutes, [TeamApi]).pipe(
  Layer.provideMerge(NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1" })),
  Layer.provide([Lifecycle.layer({ deadline: 60_000 }), BaseUrl.layer(baseUrl)]),
  Layer.provideMerge(PostgresServices),
  Layer.provideMerge(Platform),
  Layer.provideMerge(Logger.layer([]))
)

const payload = { amount: "12.00" }

const payment = (token: string, key: string) => {
  const body = JSON.stringify(payload)
  return `POST /v1/payments HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\nIdempotency-Key: ${key}\r\n`
    + `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}

/** Sends bytes on a connection of its own, and returns what arrives until the other side closes it. */
const sendUntilClosed = (port: number, bytes: string) =>
  Effect.promise(async () => {
    const wire = await openWire(port)
    wire.send(bytes)
    return wire.closed
  })

/** The port of the application, and its typed calls for a new grant that may pay. */
const open = Effect.gen(function*() {
  const { address } = yield* HttpServer.HttpServer
  assert(isInetAddress(address))
  const { access_token } = yield* issue({ scopes: [operationsRead, paymentsWrite] })
  const options = { baseUrl: HttpServer.formatAddress(address), accessToken: access_token }
  const team = yield* makeClient(TeamApi, options)
  const gateway = yield* Effect.provide(GatewayClient, GatewayClient.layer(options))
  return {
    port: address.port,
    token: Redacted.value(access_token),
    find: (key: IdempotencyKey) => gateway.list({ idempotency_key: key }),
    pay: (key: IdempotencyKey) => team.payments.pay({ headers: { "idempotency-key": key }, payload })
  }
})

layer(Application, { excludeTestServices: true })("A client that loses an answer after the commit", (it) => {
  it.effect(
    `finds exactly one operation by its key, and a repetition returns that one: ${times} times`,
    () =>
      Effect.gen(function*() {
        const { find, pay, port, token } = yield* open
        // The application answers after it has committed, so each loss is later than the commit.
        const network = yield* proxyTo({ host: "127.0.0.1", port }, () => () => "lost")
        const round = Effect.fnUntraced(function*(n: number) {
          const key = IdempotencyKey.make(`payment-${n}`)
          assert.isEmpty((yield* find(key)).operations)
          const lost = Effect.map(
            sendUntilClosed(network.port, payment(token, key)),
            (answer) => assert.strictEqual(answer, "", "the answer was lost")
          )
          // On a busy machine a payment may miss its deadline, which the lost answer says: the client repeats it.
          const { next_page_token, operations } = yield* Effect.andThen(lost, find(key)).pipe(
            Effect.repeat({ until: (page) => page.operations.length > 0 })
          )
          assert.lengthOf(operations, 1)
          assert.isNull(next_page_token)
          const again = yield* pay(key)
          assert.strictEqual(again.headers["idempotent-replayed"], "true")
          assert.deepStrictEqual(again.body, operations[0])
          return again.body.id
        })
        const ids = yield* Effect.forEach(Array.from({ length: times }, (_, n) => n), round, { concurrency: clients })
        assert.strictEqual(new Set(ids).size, times)
        const [stored] = yield* SqlClient.SqlClient.use((sql) =>
          sql`
          SELECT count(*)::int AS operations, count(DISTINCT idempotency_key)::int AS keys FROM operations`
        )
        assert.deepStrictEqual(stored, { operations: times, keys: times })
      }).pipe(Effect.scoped, Effect.provide(FetchHttpClient.layer)),
    300_000
  )
})
