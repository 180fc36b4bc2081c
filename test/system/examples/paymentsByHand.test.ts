/** The application that is composed by hand serves both APIs and submits, on PostgreSQL. */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Duration, Effect, Layer, Redacted } from "effect"
import { HttpServer } from "effect/http"
import { createServer } from "node:http"
import { Application } from "../../../examples/payments/byHand.ts"
import { operationsRead, ProviderName, Scope } from "../../../src/domain/Grant.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { bytesOf, contractBank } from "../../../src/testing/ContractBank.ts"
import { rent } from "../../fixtures/examples/paymentsProcess.ts"
import { fetchServed } from "../../fixtures/http/fetchServed.ts"
import { issue } from "../../fixtures/ledger/Ledger.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { urlOf } from "../../fixtures/processes/CommandLine.ts"

/** A bank that settles each payment at once. */
const settlingBank = contractBank({
  onRequest: (socket, { headers }) =>
    void socket.end(
      bytesOf({
        status: 200,
        body: { reference: "p-1", idempotency_key: headers["idempotency-key"] ?? "", status: "succeeded" }
      })
    )
}, () => undefined)

/** The application on a database of its own, and a token for its endpoints. */
const application = Effect.gen(function*() {
  const database = yield* createDatabase()
  const bank = yield* settlingBank
  const env = { DATABASE_URL: urlOf(database), BANK_URL: bank.baseUrl, BANK_TOKEN: "token" }
  const services = yield* Layer.build(
    Layer.provideMerge(Application, NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1" })).pipe(
      Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env })))
    )
  )
  const { access_token } = yield* issue({
    provider: ProviderName.make("bank"),
    scopes: [operationsRead, Scope.make("payments:write")],
    expires_in: Duration.hours(1)
  }).pipe(
    Effect.provide(Layer.fresh(Grants.layer.pipe(Layer.provide([layerFor(database), Platform]))))
  )
  const url = yield* Effect.provideContext(HttpServer.HttpServer, services).pipe(
    Effect.map(({ address }) => HttpServer.formatAddress(address))
  )
  return { bank, token: Redacted.value(access_token), url }
})

describe("The application by hand", () => {
  it.live("serves both APIs and submits, on PostgreSQL", () =>
    Effect.gen(function*() {
      const { bank, token, url } = yield* application
      const ask = (target: string, init: RequestInit = {}) =>
        Effect.promise(async () => {
          const headers = {
            authorization: `Bearer ${token}`,
            "content-type": "application/json",
            "idempotency-key": "rent-of-may"
          }
          const response = await fetchServed(url + target, { ...init, headers })
          return await response.json() as { readonly id: string; readonly state: string }
        })
      const pay = ask("/v1/payments", { method: "POST", body: JSON.stringify(rent) })
      const { id } = yield* pay
      assert.isString(id)
      yield* Effect.repeat(ask(`/v1/operations/${id}`), { while: ({ state }) => state !== "succeeded" })
      const sent = bank.seen().requests.filter(({ method }) => method === "POST")
      assert.deepStrictEqual(sent.map(({ headers }) => headers["idempotency-key"]), [id])
      assert.strictEqual((yield* pay).id, id)
    }))
})
