/**
 * The gateway talks to authorization servers only over trusted TLS of version 1.2 or later. The tests use TLS servers
 * on loopback.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import type { AddressInfo } from "node:net"
import * as tls from "node:tls"
import { certificate } from "../../fixtures/authorization/Agent.ts"
import { generateKeys, now, type PrivateKey, signToken } from "../../fixtures/authorization/Keys.ts"
import { baseUrl } from "../../fixtures/http/HttpProblem.ts"
import { bearer } from "../../system/authorization/Variants.ts"
import { judge, verifierOf } from "../../system/authorization/Verdicts.ts"

/** The key of the agents' certificate for `localhost`, valid for a hundred years, for tests only. */
const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgR5adS4rSHexK8RBO
jJbpuS2tuOtrG9ETSQlGe7P3GFehRANCAATlrB90XTBko1G5Sca1Z8b1xzZ02bUY
vzxybfuX3LKJRkH2UgzjwCGXqicohikPG0dg8195U56nDTNw0AoYpzVd
-----END PRIVATE KEY-----
`

const cert = `-----BEGIN CERTIFICATE-----\n${certificate.replaceAll(/.{64}/g, "$&\n")}\n-----END CERTIFICATE-----\n`

/** A TLS server that records the requests that it decrypted. */
const tlsServer = (options: tls.TlsOptions = {}) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly port: number; readonly received: () => string; readonly close: () => void }>(
      (resume) => {
        let received = ""
        const server = tls.createServer({ cert, key, ...options }, (socket) => {
          socket.on("error", () => {})
          socket.on("data", (chunk) => {
            received += chunk.toString("latin1")
          })
        })
        server.on("tlsClientError", () => {})
        server.listen(0, "127.0.0.1", () =>
          resume(Effect.succeed({
            port: (server.address() as AddressInfo).port,
            received: () => received,
            close: () => server.close()
          })))
      }
    ),
    ({ close }) => Effect.sync(close)
  )

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
