/**
 * The MCP resource has the base URL of the gateway, also with a path. The tests serve the routes behind a base URL with a path,
 * as a proxy that removes this path forwards requests.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"
import { HttpRouter } from "effect/http"
import { type Credential, InvalidCredential } from "../../../../src/domain/Credential.ts"
import { McpRoutes } from "../../../../src/server/agents/McpRoutes.ts"
import { BaseUrl } from "../../../../src/server/gate/BaseUrl.ts"
import { Lifecycle } from "../../../../src/server/gate/Lifecycle.ts"
import { GatewayRoutes } from "../../../../src/server/Gateway.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { Readiness } from "../../../../src/services/Readiness.ts"
import { GrantVerifier } from "../../../../src/services/verification/GrantVerifier.ts"
import { emptyFeed, storeOf } from "../../../fixtures/http/HttpFixed.ts"
import { Platform } from "../../../fixtures/postgres/TestDatabase.ts"

/** The routes, behind a verifier that keeps the credentials and refuses them. */
const serve = (baseUrl: string, seen: Array<Credential>) =>
  HttpRouter.toWebHandler(
    Layer.mergeAll(GatewayRoutes, McpRoutes()).pipe(
      Layer.provide([
        Layer.succeed(
          OperationStore,
          storeOf({ find: () => Effect.die("not read"), list: () => Effect.die("not read") })
        ),
        emptyFeed,
        Layer.succeed(GrantVerifier, {
          verify: (credential) => {
            seen.push(credential)
            return Effect.fail(new InvalidCredential())
          }
        }),
        Readiness.layerAlways,
        Lifecycle.layer(),
        BaseUrl.layer(baseUrl)
      ]),
      Layer.provideMerge(NodeHttpServer.layerHttpServices),
      Layer.provideMerge(Logger.layer([])),
      Layer.provideMerge(Platform)
    ),
    { disableLogger: true }
  )

describe("The MCP resource", () => {
  it.live.each([
    ["https://host.test", "https://host.test/.well-known/oauth-protected-resource"],
    ["https://host.test/money", "https://host.test/.well-known/oauth-protected-resource/money"],
    ["https://host.test/mcp/", "https://host.test/.well-known/oauth-protected-resource/mcp"]
  ])(
    "has its metadata below the base URL %s, with the well-known part between host and path (RFC 9728 §3.1)",
    ([base, metadata]) => {
      const seen: Array<Credential> = []
      const url = base.replace(/\/$/, "")
      return Effect.acquireUseRelease(
        Effect.sync(() => serve(base, seen)),
        ({ handler }) =>
          Effect.promise(async () => {
            const headers = { authorization: "Bearer x", "content-type": "application/json" }
            const call = await handler(new Request("http://inside.test/mcp", { method: "POST", headers, body: "{}" }))
            const read = await handler(new Request("http://inside.test/v1/operations", { headers }))
            assert.deepStrictEqual(seen.map(({ resource, url }) => ({ resource, url })), [
              { resource: `${url}/mcp`, url: `${url}/mcp` },
              { resource: null, url: `${url}/v1/operations` }
            ])
            assert.include(call.headers.get("www-authenticate"), `resource_metadata="${metadata}/mcp"`)
            assert.include(read.headers.get("www-authenticate"), `resource_metadata="${metadata}"`)
            const described = await handler(new Request("http://inside.test/.well-known/oauth-protected-resource/mcp"))
            assert.strictEqual((await described.json() as { readonly resource: string }).resource, `${url}/mcp`)
          }),
        ({ dispose }) => Effect.promise(() => dispose())
      )
    }
  )
})
