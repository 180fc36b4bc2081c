/** A gateway whose authorization server serves an empty key set reads with the old keys for an hour. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { decodeJwt } from "jose"
import {
  authorize,
  authorizedGateway,
  idsOf,
  read,
  server,
  settled,
  type Setup,
  Surroundings
} from "../../fixtures/authorization/AuthorizedGateway.ts"
import { generateKeys, signToken } from "../../fixtures/authorization/Keys.ts"
import { Gateway } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf, baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { answerOf, proxyTo, targetOf, type Treatment } from "../../fixtures/processes/Proxy.ts"

/** What a request for keys meets; undefined leads it to the authorization server. */
let treatment: Treatment | undefined

/** A gateway that fetches keys through a proxy. */
const behindProxy = Layer.unwrap(Effect.map(proxyTo({ port: 0 }, () => () => treatment), (proxy) => {
  const setup: Setup = {
    servers: [{
      agents: [{ client_id: "agent", tokens: "ES256", authentication: "client_secret_basic", binding: "none" }],
      tokenLifetime: 3 * 3600
    }],
    accept: ([server]) => {
      proxy.target = targetOf(server!.issuer)
      const jwksUri = `http://127.0.0.1:${proxy.port}/jwks`
      return {
        issuers: [{ issuer: server!.issuer, audience: baseUrl, grantProvisioning: {}, signatureTimeToLive: 0, jwksUri }]
      }
    }
  }
  return authorizedGateway(setup)
}))

layer(behindProxy, { excludeTestServices: true })(
  "The gateway, whose authorization server lost its keys,",
  (it) => {
    it.effect("reads with the old ones for an hour; what it cannot verify is 503 then, and never 401", () =>
      Effect.gen(function*() {
        const { passTime } = yield* Surroundings
        const { send } = yield* Gateway
        const { holder, operation } = yield* settled("agent")
        const { keys } = yield* server()
        const claims = decodeJwt(holder.tokens.access)
        const stranger = signToken(yield* Effect.promise(() => generateKeys(false)), "ES256", claims)
        treatment = answerOf("200 OK", "{\"keys\":[]}", ["Content-Type: application/json"])
        passTime("11 minutes")
        assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
        assertProblemOf(yield* send("/v1/operations", { token: stranger }), "authorization_unavailable")
        passTime("50 minutes")
        const answer = yield* read(holder)
        assertProblemOf(answer, "authorization_unavailable")
        assert.notProperty(answer.headers, "www-authenticate")
        treatment = undefined
        passTime("31 seconds")
        assert.deepStrictEqual(idsOf(yield* read(holder)), [operation.id])
        assertProblemOf(yield* send("/v1/operations", { token: stranger }), "invalid_token")
        assert.strictEqual(
          (yield* send("/v1/operations", {
            token: signToken(keys(), "ES256", decodeJwt((yield* authorize("agent")).tokens.access))
          })).status,
          200
        )
      }))
  }
)
