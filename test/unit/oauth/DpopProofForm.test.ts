/**
 * A DPoP proof is one short JWT that is signed by the public key in its header. The tests break its form, and change
 * good proofs at random.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { createHmac, generateKeyPairSync } from "node:crypto"
import { encode, epoch, proofOf, provenOf, sign, signerOf, thumbprintOf } from "../../fixtures/oauth/Issuing.ts"
import { judged, makeScene, makeVerify, token, verdictOn } from "../../fixtures/oauth/ProofScene.ts"

describe("A DPoP proof", () => {
  it.effect("is a single JWT of at most 8 KiB (checks 1 and 2)", () =>
    Effect.gen(function*() {
      const { signer, verdict } = yield* makeScene()
      const [one, other] = [yield* proofOf(signer, token), yield* proofOf(signer, token, { jti: "proof-2" })]
      const [header, payload, signature] = one.split(".")
      assert.strictEqual(yield* verdict(one), "accepted")
      const wrong = [
        `${one}, ${other}`,
        ` ${one}`,
        `${one}.`,
        `${one}=`,
        `${header}.${payload}`,
        `${header}.${payload}.`,
        `.${payload}.${signature}`,
        "",
        "x"
      ]
      for (const proof of wrong) assert.strictEqual(yield* verdict(proof), "is not one JWT", proof)
      const long = yield* proofOf(signer, token, { padding: "x".repeat(6200) })
      assert.isAbove(long.length, 8192)
      assert.strictEqual(yield* verdict(long), "is too long")
      const short = yield* proofOf(signer, token, { padding: "x".repeat(5500) })
      assert.strictEqual(yield* verdict(short), "accepted")
      assert.strictEqual(yield* verdict(`eyJ.${payload}.${signature}`), "is not one JWT")
      assert.strictEqual(yield* verdict(`eyJh.${payload}.${signature}`), "is not a JWT")
    }))

  it.effect("is refused when it is unsigned or signed with a shared secret (check 5)", () =>
    Effect.gen(function*() {
      const { signer, verdict } = yield* makeScene()
      const [, payload] = (yield* proofOf(signer, token)).split(".")
      const secret = { kty: "oct", k: Buffer.from("secret").toString("base64url") }
      for (const alg of ["none", "HS256", "HS512"]) {
        for (const jwk of [signer.jwk, secret]) {
          const input = `${encode({ alg, typ: "dpop+jwt", jwk })}.${payload}`
          const signature = createHmac("sha256", "secret").update(input).digest("base64url")
          assert.strictEqual(
            yield* verdict(`${input}.${signature}`),
            "has an algorithm that is not accepted"
          )
        }
      }
    }))

  it.effect("is signed by the key in its header (check 6)", () =>
    Effect.gen(function*() {
      const { signer, verdict } = yield* makeScene()
      const thief = yield* signerOf("thief")
      const { crv, kty, x, y } = signer.jwk
      const forged = yield* proofOf(thief, token, {}, { jwk: { crv, kty, x, y } })
      assert.strictEqual(
        yield* verdict(forged),
        "is not signed by its key, or has expired"
      )
    }))

  it.effect("has a public key in its header, and no private one (check 7)", () =>
    Effect.gen(function*() {
      const signer = yield* signerOf("agent")
      const verdictOnKey = (jwk: unknown) => verdictOn({}, { header: { jwk } })
      for (const jwk of [undefined, null, "key", 1, []]) {
        assert.strictEqual(yield* verdictOnKey(jwk), "has no public key")
      }
      const unusable = [
        signer.privateJwk,
        { ...signer.jwk, d: "" },
        { ...signer.jwk, k: "AA" },
        { ...signer.jwk, use: "enc" },
        { ...signer.jwk, alg: "ES384" },
        { ...signer.jwk, key_ops: ["sign"] }
      ]
      for (const jwk of unusable) {
        assert.strictEqual(yield* verdictOnKey(jwk), "has no public key for its algorithm")
      }
      assert.strictEqual(yield* verdictOnKey({ kty: "oct", k: "AA" }), "is of another key than the token")
      assert.strictEqual(yield* verdictOnKey({ kty: "EC" }), "is of another key than the token")
      assert.strictEqual(yield* verdictOnKey({ ...signer.jwk, ext: false, key_ops: ["verify"] }), "accepted")
    }))

  it.effect("has an RSA key of at least 2048 bits", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const { publicKey } = generateKeyPairSync("rsa", { modulusLength: 1024 })
      const jwk = publicKey.export({ format: "jwk" })
      const verify = yield* makeVerify()
      const proof = `${encode({ alg: "PS256", typ: "dpop+jwt", jwk })}.${encode({})}.AAAA`
      assert.strictEqual(
        yield* judged(verify(provenOf(token, proof), thumbprintOf(jwk as never))),
        "has no public key for its algorithm"
      )
    }))

  it.effect("does not appear in the failure that it causes", () =>
    Effect.gen(function*() {
      const { signer, verify } = yield* makeScene()
      for (const claims of [{ htm: "SECRET" }, { htu: "SECRET" }, { ath: "SECRET" }, { jti: ["SECRET"] }, { exp: 1 }]) {
        const proof = yield* proofOf(signer, token, { ...claims, other: "SECRET" })
        const error = yield* Effect.flip(verify(proof))
        assert.notMatch(`${JSON.stringify(error)} ${String(error)} ${(error as Error).stack}`, /SECRET/)
      }
    }))

  it.effect("never makes the verifier die, with any JSON as its claims or header", () =>
    Effect.gen(function*() {
      const { signer, verdict } = yield* makeScene()
      const names = fc.constantFrom("jti", "htm", "htu", "iat", "ath", "nonce", "exp", "nbf")
      const claims = fc.sample(fc.dictionary(names, fc.jsonValue()), { numRuns: 300, seed: 42 })
      for (const changes of claims) {
        const proof = yield* sign(signer, { alg: "ES256", typ: "dpop+jwt", jwk: signer.jwk }, changes)
        assert.notStrictEqual(
          yield* verdict(proof),
          "accepted",
          JSON.stringify(changes)
        )
      }
      const headers = fc.sample(fc.dictionary(fc.constantFrom("jwk", "typ", "crit", "kid"), fc.jsonValue()), {
        numRuns: 300,
        seed: 42
      })
      for (const changes of headers) {
        const header = { alg: "ES256", typ: "dpop+jwt", ...changes }
        const proof = `${encode(header)}.${encode({})}.AAAA`
        assert.notStrictEqual(yield* verdict(proof), "accepted")
      }
    }))
})
