/**
 * The Effect client lists and follows operations of a served gateway, and reports problems by their code.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Exit, Fiber, Layer, Queue, Redacted, Stream } from "effect"
import { FetchHttpClient, HttpRouter, HttpServer } from "effect/http"
import { createServer } from "node:http"
import { GatewayClient } from "../../../src/api/Client.ts"
import {
  ClientId,
  type GrantIdentity,
  operationsRead,
  PairwiseSubject,
  ProviderName,
  ResourceOwner
} from "../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import type { Operation } from "../../../src/domain/Operation.ts"
import { BaseUrl } from "../../../src/server/gate/BaseUrl.ts"
import { Lifecycle } from "../../../src/server/gate/Lifecycle.ts"
import { GatewayRoutes } from "../../../src/server/Gateway.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { MemoryLedger } from "../../../src/services/memory/MemoryLedger.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { Readiness } from "../../../src/services/Readiness.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { whileTimePasses } from "../../fixtures/client/TestTime.ts"
import { Platform } from "../../fixtures/TestDatabase.ts"

const Ledger = Layer.mergeAll(
  Grants.layerMemory,
  OperationLedger.layerMemory,
  OperationStore.layerMemory,
  OperationFeed.layerMemory,
  GrantVerifier.layerMemory
).pipe(Layer.provide(MemoryLedger.layer), Layer.provideMerge(Platform))

const Gateway = HttpRouter.serve(GatewayRoutes, { disableLogger: true, disableListenLog: true }).pipe(
  Layer.provide([Readiness.layerAlways, Lifecycle.layer(), BaseUrl.layer("http://gateway.test")]),
  Layer.provideMerge(Ledger),
  Layer.provideMerge(NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1" }))
)

const setUp = Effect.gen(function*() {
  const { access_token, grant } = yield* (yield* Grants).issue({
    resource_owner: ResourceOwner.make("owner"),
    subject: PairwiseSubject.make("subject"),
    client_id: ClientId.make("client"),
    provider: ProviderName.make("bank"),
    scopes: [operationsRead],
    expires_in: Duration.days(365)
  })
  const identity = { grant_id: grant.grant_id, client_id: grant.client_id, subject: grant.subject }
  const { address } = yield* HttpServer.HttpServer
  const Client = GatewayClient.layer({ baseUrl: HttpServer.formatAddress(address), accessToken: access_token })
  const client = yield* Effect.provide(GatewayClient, Client.pipe(Layer.provide(FetchHttpClient.layer)))
  return { client, identity }
})

const accept = (identity: GrantIdentity, key: string) =>
  Effect.flatMap(
    OperationLedger,
    (ledger) => ledger.accept(identity, { type: "payment", key: IdempotencyKey.make(key), payload: null })
  ).pipe(
    Effect.map(({ operation }) => operation)
  )

describe("The Effect client", () => {
  it.effect("lists all operations, page by page", () =>
    Effect.gen(function*() {
      const { client, identity } = yield* setUp
      const ids = yield* Effect.forEach(
        Array.from({ length: 7 }, (_, n) => `key-${n}`),
        (key) => Effect.map(accept(identity, key), ({ id }) => id)
      )
      const page = yield* client.list({ page_size: 3 })
      assert.strictEqual(page.operations.length, 3)
      assert.isNotNull(page.next_page_token)
      const all = yield* Stream.runCollect(client.listAll({ page_size: 3 }))
      assert.deepStrictEqual(all.map(({ id }) => id).toSorted(), ids.toSorted())
    }).pipe(Effect.provide(Gateway)))

  it.effect("follows an operation until it is final, and emits each change once", () =>
    Effect.gen(function*() {
      const { client, identity } = yield* setUp
      const ledger = yield* OperationLedger
      const { id } = yield* accept(identity, "key")
      const seen = yield* Queue.make<Operation>()
      const following = yield* Effect.forkChild(
        Stream.runForEach(client.follow(id), (found) => Queue.offer(seen, found))
      )
      const next = whileTimePasses(Queue.take(seen))
      assert.strictEqual((yield* next).state, "accepted")
      yield* ledger.transition(id, 1, { state: "submitting" }, null)
      assert.strictEqual((yield* next).state, "submitting")
      yield* ledger.transition(id, 2, { state: "indeterminate" }, null)
      assert.isTrue((yield* next).submission_uncertain)
      yield* ledger.transition(id, 3, { state: "succeeded" }, { settled: true })
      assert.strictEqual((yield* next).state, "succeeded")
      yield* whileTimePasses(Fiber.join(following))
      assert.strictEqual(yield* Queue.size(seen), 0)
    }).pipe(Effect.provide(Gateway)))

  it.effect("stops following when the grant is revoked", () =>
    Effect.gen(function*() {
      const { client, identity } = yield* setUp
      const { id } = yield* accept(identity, "key")
      const following = yield* Effect.forkChild(Effect.flip(Stream.runDrain(client.follow(id))))
      yield* (yield* Grants).revoke(identity.grant_id)
      const error = yield* whileTimePasses(Fiber.join(following))
      assert.strictEqual("code" in error && error.code, "grant_revoked")
    }).pipe(Effect.provide(Gateway)))

  it.effect("reports problems by their code, and a missing gateway by an error of its own", () =>
    Effect.gen(function*() {
      const { identity } = yield* setUp
      const { id } = yield* accept(identity, "key")
      const { address } = yield* HttpServer.HttpServer
      const fail = (baseUrl: string) =>
        Effect.flip(Effect.flatMap(GatewayClient, (client) => client.get(id))).pipe(
          Effect.provide(GatewayClient.layer({ baseUrl, accessToken: Redacted.make("nonsense") })),
          Effect.provide(FetchHttpClient.layer)
        )
      const refused = yield* fail(HttpServer.formatAddress(address))
      assert.strictEqual("code" in refused && refused.code, "invalid_token")
      const silent = yield* fail("http://127.0.0.1:1")
      assert.strictEqual("_tag" in silent && silent._tag, "HttpClientError")
    }).pipe(Effect.provide(Gateway)))

  it.effect.each(["", "gateway", "localhost:3000"])("refuses the base URL %j", (baseUrl) =>
    Effect.gen(function*() {
      const layer = GatewayClient.layer({ baseUrl, accessToken: Redacted.make("token") })
      const exit = yield* Effect.exit(Layer.build(layer)).pipe(Effect.provide(FetchHttpClient.layer))
      assert.isTrue(Exit.hasDies(exit))
    }))
})
