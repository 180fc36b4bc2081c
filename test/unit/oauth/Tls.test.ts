/**
 * The gateway talks to authorization servers only over trusted TLS of version 1.2 or later. The tests use TLS servers
 * on loopback.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import * as tls from "node:tls"
import { generateKeys, now, type PrivateKey, signToken } from "../../fixtures/authorization/Keys.ts"
import { bearer } from "../../fixtures/authorization/Variants.ts"
import { judge, verifierOf } from "../../fixtures/authorization/Verdicts.ts"
import { baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { tlsServer } from "../../fixtures/http/TlsServer.ts"

/** The part of the materials that a verifier and a token need. */
const materialsFor = (issuer: string, keys: ReadonlyArray<PrivateKey>) => ({
  issuer,
  audience: baseUrl,
  url: `${baseUrl}/v1/operations`,
  keys
})

const judgeTokenOf = Effect.fnUntraced(function*(issuer: string) {
  const materials = materialsFor(issuer, yield* Effect.promise(() => generateKeys()))
  const token = signToken(materials.keys, "ES256", {
    iss: issuer,
    aud: baseUrl,
    sub: "subject",
    client_id: "client",
    grant_id: "grant",
    jti: "token",
    iat: now(),
    exp: now() + 300
  })
  return yield* judge(materials, bearer(token)).pipe(
    Effect.provide(verifierOf(materials, 0)),
    Effect.provide(Logger.layer([]))
  )
})

describe("An authorization server", () => {
  it.live("without a trusted certificate gets no request, and its tokens are 503", () =>
    Effect.gen(function*() {
      const { port, received } = yield* tlsServer()
      assert.strictEqual(yield* judgeTokenOf(`https://localhost:${port}`), "AuthorizationUnavailable")
      assert.strictEqual(received(), "")
    }))

  it.live("without TLS 1.2 or later gets no request, and its tokens are 503", () =>
    Effect.gen(function*() {
      const { port, received } = yield* tlsServer({
        minVersion: "TLSv1",
        maxVersion: "TLSv1.1",
        ciphers: "ALL:@SECLEVEL=0"
      })
      assert.strictEqual(yield* judgeTokenOf(`https://localhost:${port}`), "AuthorizationUnavailable")
      assert.strictEqual(received(), "")
      assert.include(["TLSv1.2", "TLSv1.3"], tls.DEFAULT_MIN_VERSION)
    }))
})
