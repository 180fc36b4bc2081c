/**
 * The gateway authenticates at authorization servers by a secret or by a signed assertion. The tests read the request
 * that it would send.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpClient, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { decodeProtectedHeader, type JWK, jwtVerify } from "jose"
import { generateKeyPairSync } from "node:crypto"
import {
  type ClientAuthentication,
  makeClientAuthentication,
  makeClientToken
} from "../../../src/oauth/ClientAuthentication.ts"
import { epoch, issuer, signerOf } from "../../fixtures/oauth/Issuing.ts"

const make = (client: ClientAuthentication) =>
  Effect.provide(makeClientAuthentication(client, issuer), SecureRandom.layerWebCrypto)

const basic = (clientId: string, secret: string) =>
  make({ method: "client_secret_basic", clientId, secret: Redacted.make(secret) })

const withKey = (key: JWK, clientId = "gateway") =>
  make({ method: "private_key_jwt", clientId, key: Redacted.make(key) })

const faultOf = (made: ReturnType<typeof make>) => Effect.map(Effect.flip(made), ({ reason }) => reason)

describe("The gateway as a client, by client_secret_basic", () => {
  it.effect("form-encodes identifier and secret before it joins them (RFC 6749 §2.3.1)", () =>
    Effect.gen(function*() {
      const { fields, headers } = yield* yield* basic("gate:way ä", "p%s&:+/=")
      const [scheme, credentials] = headers["authorization"]!.split(" ") as [string, string]
      assert.strictEqual(scheme, "Basic")
      const parts = Buffer.from(credentials, "base64").toString().split(":")
      assert.deepStrictEqual(parts, ["gate%3Away+%C3%A4", "p%25s%26%3A%2B%2F%3D"])
      assert.deepStrictEqual(fields, {})
    }))

  it.effect("needs identifier and secret", () =>
    Effect.gen(function*() {
      assert.include(yield* faultOf(basic("", "s")), "client id")
      assert.include(yield* faultOf(basic("gateway", "")), "client secret")
    }))
})

describe("The gateway as a client, by private_key_jwt", () => {
  it.effect("signs an assertion for the issuer that is valid for a minute (RFC 7523, FAPI 2.0)", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      for (const algorithm of ["ES256", "EdDSA", "PS256", "RS256"]) {
        const signer = yield* signerOf("gateway-key", algorithm)
        const { fields, headers } = yield* yield* withKey(signer.privateJwk)
        assert.deepStrictEqual(headers, {})
        const { client_assertion: assertion, ...others } = fields
        assert.deepStrictEqual(others, {
          client_id: "gateway",
          client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        })
        const options = { currentDate: new Date(epoch * 1000) }
        const { payload, protectedHeader } = yield* Effect.promise(() => jwtVerify(assertion!, signer.jwk, options))
        assert.deepStrictEqual(protectedHeader, { alg: algorithm, kid: "gateway-key" })
        const { jti, ...claims } = payload
        assert.match(jti!, /^[0-9a-f-]{36}$/)
        assert.deepStrictEqual(claims, {
          iss: "gateway",
          sub: "gateway",
          aud: issuer,
          iat: epoch,
          exp: epoch + 60
        })
      }
    }))

  it.effect("makes a new assertion for each request", () =>
    Effect.gen(function*() {
      const prove = yield* withKey((yield* signerOf("gateway-key")).privateJwk)
      assert.notStrictEqual((yield* prove).fields["client_assertion"], (yield* prove).fields["client_assertion"])
    }))

  it.effect("uses the algorithm of FAPI 2.0 that fits the key when the key names none", () =>
    Effect.gen(function*() {
      for (const algorithm of ["ES256", "EdDSA", "PS256"]) {
        const { alg: _, ...key } = (yield* signerOf("gateway-key", algorithm)).privateJwk
        const { fields } = yield* yield* withKey(key)
        assert.strictEqual(decodeProtectedHeader(fields["client_assertion"]!).alg, algorithm)
      }
    }))

  it.effect("refuses an unusable key at start, and reveals nothing of it", () =>
    Effect.gen(function*() {
      const { jwk, privateJwk } = yield* signerOf("gateway-key")
      const weak = generateKeyPairSync("rsa", { modulusLength: 1024 }).privateKey.export({ format: "jwk" }) as JWK
      const keys: ReadonlyArray<readonly [JWK, string]> = [
        [jwk, "is not private"],
        [{ ...privateJwk, alg: "HS256" }, "asymmetric"],
        [{ kty: "oct", k: "AAAA", alg: "HS256" }, "asymmetric"],
        [{ kty: "oct", k: "AAAA" }, "asymmetric"],
        [{ ...privateJwk, alg: "PS256" }, "cannot be imported"],
        [{ ...privateJwk, d: "AAAA" }, "cannot be imported"],
        [{ ...privateJwk, key_ops: ["verify"] }, "cannot"],
        [weak, "cannot sign with PS256"],
        [null as never, "must be a private key"],
        ["key" as never, "must be a private key"]
      ]
      for (const [key, expected] of keys) {
        const reason = yield* faultOf(withKey(key))
        assert.include(reason, expected)
        assert.notInclude(reason, privateJwk.d!)
      }
    }))
})

describe("The token that a bank gives the gateway", () => {
  it.effect("is used again until a minute before its end, and not at all without an end", () =>
    Effect.gen(function*() {
      let lifetime: number | undefined = 300
      let asked = 0
      const client = HttpClient.make((request) =>
        Effect.sync(() => {
          asked++
          return HttpClientResponse.fromWeb(request, Response.json({ access_token: "token", expires_in: lifetime }))
        })
      )
      const token = yield* Effect.provideService(
        makeClientToken({ tokenUrl: "https://bank.example/token", clientId: "gateway", scope: "payments" }),
        HttpClient.HttpClient,
        client
      )
      const askedAfter = Effect.fnUntraced(function*(seconds: number) {
        yield* TestClock.adjust(seconds * 1000)
        yield* token
        return asked
      })
      assert.deepStrictEqual(yield* Effect.forEach([0, 239], askedAfter), [1, 1])
      lifetime = undefined
      assert.deepStrictEqual(yield* Effect.forEach([1, 0], askedAfter), [2, 3])
    }))
})
