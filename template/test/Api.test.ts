/**
 * The endpoint accepts a transfer once for each key, and refuses others with the right problem. The tests call it with a
 * typed client, over a ledger in memory: they need no database and no port.
 */
import { NodeCrypto, NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpRouter from "effect/http/HttpRouter"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { makeClient } from "financial-agents-gateway/api/Client"
import { BaseUrl, Lifecycle, RequestIds } from "financial-agents-gateway/server/Gateway"
import { MutationEndpoints } from "financial-agents-gateway/server/MutationEndpoints"
import { Grants } from "financial-agents-gateway/services/Grants"
import { GrantVerifier } from "financial-agents-gateway/services/GrantVerifier"
import { MemoryLedger } from "financial-agents-gateway/services/MemoryLedger"
import { OperationLedger } from "financial-agents-gateway/services/OperationLedger"
import { TransfersApi } from "../src/Api.ts"
import { issueGrant } from "../src/Invitation.ts"
import { TransfersRoutes } from "../src/Routes.ts"
import type { Transfer } from "../src/Transfer.ts"

const url = "http://transfers.example"

const payload: Transfer = { amount: "12.50", currency: "EUR", iban: "DE89370400440532013000" }

const Services = Layer.mergeAll(
  Grants.layerMemory,
  GrantVerifier.layerMemory,
  OperationLedger.layerMemory,
  RequestIds.layer
).pipe(
  Layer.provideMerge(MemoryLedger.layer),
  Layer.provideMerge(NodeCrypto.layer)
)

/** Calls `POST /v1/transfers` with a token of Alice. */
const scene = Effect.gen(function*() {
  const services = yield* Layer.build(Services)
  const routes = TransfersRoutes.pipe(
    Layer.provide(MutationEndpoints.layer),
    Layer.provide([Layer.succeedContext(services), Lifecycle.layer(), BaseUrl.layer(url)]),
    Layer.provideMerge([NodeHttpServer.layerHttpServices, Logger.layer([])])
  )
  const { handler } = yield* Effect.acquireRelease(
    Effect.sync(() => HttpRouter.toWebHandler(routes, { disableLogger: true })),
    ({ dispose }) => Effect.promise(() => dispose())
  )
  const { access_token } = yield* Effect.provideContext(issueGrant, services)
  const client = yield* makeClient(TransfersApi, { baseUrl: url, accessToken: access_token }).pipe(
    Effect.provide(FetchHttpClient.layer),
    Effect.provideService(FetchHttpClient.Fetch, (input, init) => handler(new Request(input, init)))
  )
  return (key: string, transfer: Transfer) =>
    client.transfers.transfer({ headers: { "idempotency-key": key }, payload: transfer })
})

describe("POST /v1/transfers", () => {
  it.live("answers a repeated request with the same operation", () =>
    Effect.gen(function*() {
      const transfer = yield* scene
      const { body, headers } = yield* transfer("rent", payload)
      assert.deepInclude(body, { type: "transfer", state: "accepted" })
      assert.strictEqual(headers.location, `${url}/v1/operations/${body.id}`)
      assert.deepStrictEqual((yield* transfer("rent", payload)).body, body)
      assert.notStrictEqual((yield* transfer("rent-of-june", payload)).body.id, body.id)
    }))

  it.live("refuses another transfer under the same key", () =>
    Effect.gen(function*() {
      const transfer = yield* scene
      yield* transfer("rent", payload)
      const problem = yield* Effect.flip(transfer("rent", { ...payload, amount: "12.51" }))
      assert.deepInclude(problem, { _tag: "IdempotencyKeyReused", status: 422 })
    }))

  it.live("refuses an amount with more digits than its currency has", () =>
    Effect.gen(function*() {
      const transfer = yield* scene
      for (const [amount, currency] of [["1500", "JPY"], ["1.500", "KWD"]] as const) {
        assert.strictEqual((yield* transfer(currency, { ...payload, amount, currency })).body.state, "accepted")
      }
      for (const [amount, currency] of [["1500.50", "JPY"], ["1.500", "EUR"]] as const) {
        const problem = yield* Effect.flip(transfer(`more-${currency}`, { ...payload, amount, currency }))
        assert.deepInclude(problem, { _tag: "SchemaError" })
      }
    }))
})
