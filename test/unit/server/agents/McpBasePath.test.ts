/**
 * The MCP resource has the base URL of the gateway, also with a path. The tests serve the routes behind a base URL with a path,
 * as a proxy that removes this path forwards requests.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { HttpRouter } from "effect/http"
import { type Credential, InvalidCredential } from "../../../../src/domain/Credential.ts"
import { McpRoutes } from "../../../../src/server/agents/McpRoutes.ts"
import { GatewayRoutes } from "../../../../src/server/Gateway.ts"
import { GrantVerifier } from "../../../../src/services/verification/GrantVerifier.ts"
import { applicationServices, webHandler } from "../../../fixtures/http/HttpFixed.ts"

/** The routes, behind a verifier that keeps the credentials and refuses them. */
const routesOf = (url: string, seen: Array<Credential>) =>
  Layer.mergeAll(GatewayRoutes, McpRoutes()).pipe(
    Layer.provide(Layer.succeed(GrantVerifier, {
      verify: (credential) => {
        seen.push(credential)
        return Effect.fail(new InvalidCredential())
      }
    })),
    Layer.provideMerge(NodeHttpServer.layerHttpServices),
    Layer.provideMerge(applicationServices({ url }))
  )

describe("The MCP resource", () => {
  it.live.each([
    ["https://host.test", "https://host.test/.well-known/oauth-protected-resource"],
    ["https://host.test/money", "https://host.test/.well-known/oauth-protected-resource/money"],
    ["https://host.test/mcp/", "https://host.test/.well-known/oauth-protected-resource/mcp"]
  ])(
    "has its metadata below the base URL %s, with the well-known part between host and path (RFC 9728 §3.1)",
    ([base, metadata]) =>
      Effect.gen(function*() {
        const seen: Array<Credential> = []
        const url = base.replace(/\/$/, "")
        const handler = yield* webHandler(() => HttpRouter.toWebHandler(routesOf(base, seen), { disableLogger: true }))
        const ask = (path: string, init: RequestInit = {}) =>
          Effect.promise(() => handler(new Request(`http://inside.test${path}`, init)))
        const headers = { authorization: "Bearer x", "content-type": "application/json" }
        const call = yield* ask("/mcp", { method: "POST", headers, body: "{}" })
        const read = yield* ask("/v1/operations", { headers })
        assert.deepStrictEqual(seen.map(({ resource, url }) => ({ resource, url })), [
          { resource: `${url}/mcp`, url: `${url}/mcp` },
          { resource: null, url: `${url}/v1/operations` }
        ])
        assert.include(call.headers.get("www-authenticate"), `resource_metadata="${metadata}/mcp"`)
        assert.include(read.headers.get("www-authenticate"), `resource_metadata="${metadata}"`)
        const described = yield* ask("/.well-known/oauth-protected-resource/mcp")
        const { resource } = (yield* Effect.promise(() => described.json())) as { readonly resource: string }
        assert.strictEqual(resource, `${url}/mcp`)
      })
  )
})
