/**
 * The metadata of the protected resource leads a client from the URL to a token (RFC 9728). The tests follow it with
 * `oauth4webapi` and a real authorization server.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as oauth from "oauth4webapi"
import type { AgentClient } from "../../fixtures/authorization/AuthorizationServer.ts"
import {
  authorize,
  authorizedGateway,
  read,
  server,
  type Setup
} from "../../fixtures/authorization/AuthorizedGateway.ts"
import { Gateway } from "../../fixtures/http/HttpGateway.ts"
import { baseUrl } from "../../fixtures/http/HttpProblem.ts"

const agents: ReadonlyArray<AgentClient> = [
  { client_id: "bound", tokens: "ES256", authentication: "private_key_jwt", binding: "DPoP" },
  { client_id: "unbound", tokens: "ES256", authentication: "client_secret_basic", binding: "none" }
]

const setup: Setup = {
  servers: [{ agents }],
  accept: ([server]) => ({
    issuers: [{ issuer: server!.issuer, audience: baseUrl, grantProvisioning: {} }],
    senderConstrained: "required"
  })
}

layer(authorizedGateway(setup), { excludeTestServices: true })("The metadata of the protected resource", (it) => {
  it.effect("leads a client that knows only the URL to a token that reads (RFC 9728)", () =>
    Effect.gen(function*() {
      const { port, send } = yield* Gateway
      const refused = yield* send("/v1/operations")
      const [, url] = /resource_metadata="([^"]+)"/.exec(refused.headers["www-authenticate"]!)!
      assert.strictEqual(url, `${baseUrl}/.well-known/oauth-protected-resource`)
      const resource = new URL(baseUrl)
      const metadata = yield* Effect.promise(async () =>
        oauth.processResourceDiscoveryResponse(
          resource,
          await oauth.resourceDiscoveryRequest(resource, {
            [oauth.customFetch]: (asked) => {
              assert.strictEqual(asked, url)
              return fetch(asked.replace(baseUrl, `http://127.0.0.1:${port}`))
            }
          })
        )
      )
      const { issuer } = yield* server()
      assert.deepStrictEqual(metadata.authorization_servers, [issuer])
      assert.strictEqual(metadata.resource, baseUrl)
      assert.deepStrictEqual(metadata.bearer_methods_supported, ["header"])
      assert.include(metadata.scopes_supported ?? [], "operations:read")
      assert.isTrue(metadata.dpop_bound_access_tokens_required)
      assert.deepStrictEqual(metadata.dpop_signing_alg_values_supported, ["ES256", "EdDSA", "Ed25519", "PS256"])
      const holder = yield* authorize("bound", { resource: metadata.resource })
      assert.strictEqual((yield* read(holder)).status, 200)
    }))

  it.effect("is named by every 401 and 403", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const holder = yield* authorize("bound")
      const narrow = yield* authorize("bound", { scope: "operations:write" })
      const answers = [
        yield* send("/v1/operations"),
        yield* send("/v1/operations", { headers: { authorization: "Basic Og==" } }),
        yield* send("/v1/operations", { token: "x" }),
        yield* read(yield* authorize("unbound")),
        yield* read(holder, "/v1/operations", { method: "PUT" }),
        yield* read(narrow)
      ]
      assert.deepStrictEqual(answers.map(({ status }) => status), [401, 401, 401, 401, 401, 403])
      for (const { headers } of answers) {
        assert.include(
          headers["www-authenticate"],
          `resource_metadata="${baseUrl}/.well-known/oauth-protected-resource"`
        )
      }
    }))
})
