/**
 * A key set yields the key that fits name, type, curve, use and algorithm, and ignores unsafe keys. The tests search
 * small key sets.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { exportJWK, generateKeyPair, type JWK } from "jose"
import { generateKeyPairSync } from "node:crypto"
import { makeFakeServer } from "../../fixtures/oauth/FakeServer.ts"
import { signerOf } from "../../fixtures/oauth/Issuing.ts"
import { jwkOf, keySetOf } from "../../fixtures/oauth/TokenScene.ts"

describe("A key of a key set", () => {
  const searchAmong = (keys: ReadonlyArray<unknown>, algorithms?: ReadonlyArray<string>) =>
    keySetOf(makeFakeServer(keys), algorithms === undefined ? {} : { algorithms })

  it.effect("is found by its name and the algorithm", () =>
    Effect.gen(function*() {
      const search = yield* searchAmong([
        yield* jwkOf("one"),
        yield* jwkOf("two", "PS256"),
        yield* jwkOf("three", "EdDSA")
      ])
      assert.strictEqual(yield* search("one", "ES256"), "found")
      assert.strictEqual(yield* search("two", "PS256"), "found")
      assert.strictEqual(yield* search("three", "EdDSA"), "found")
      assert.strictEqual(yield* search("one", "PS256"), "InvalidCredential")
      assert.strictEqual(yield* search("two", "RS256"), "InvalidCredential")
      assert.strictEqual(yield* search("three", "Ed25519"), "InvalidCredential")
    }))

  it.effect("that names no algorithm fits each algorithm of its type, and no other", () =>
    Effect.gen(function*() {
      const { alg: _, ...ed } = yield* jwkOf("ed", "EdDSA")
      const { alg: __, ...rsa } = yield* jwkOf("rsa", "PS256")
      const search = yield* searchAmong([ed, rsa])
      assert.strictEqual(yield* search("ed", "EdDSA"), "found")
      assert.strictEqual(yield* search("ed", "Ed25519"), "found")
      assert.strictEqual(yield* search("rsa", "PS256"), "found")
      assert.strictEqual(yield* search("rsa", "RS256"), "InvalidCredential")
      const optedIn = yield* searchAmong([rsa], ["RS256"])
      assert.strictEqual(yield* optedIn("rsa", "RS256"), "found")
    }))

  it.effect("is found without a name only if it is the only key", () =>
    Effect.gen(function*() {
      const alone = yield* searchAmong([yield* jwkOf("one"), yield* jwkOf("other", "PS256")])
      assert.strictEqual(yield* alone(undefined), "found")
      const several = yield* searchAmong([yield* jwkOf("one"), yield* jwkOf("two")])
      assert.strictEqual(yield* several(undefined), "InvalidCredential")
    }))

  it.effect("that is invalid does not affect the other keys", () =>
    Effect.gen(function*() {
      const good = yield* jwkOf("good")
      const bad = [null, 1, "key", [], {}, { kty: "EC" }, { ...good, kid: "off", x: good.y, y: good.x }, {
        kty: "unknown"
      }]
      const search = yield* searchAmong([...bad, good, ...bad])
      assert.strictEqual(yield* search("good"), "found")
      assert.strictEqual(yield* search("off"), "InvalidCredential")
    }))

  it.effect("is ignored when it is for encryption, symmetric, private, of another curve, or not for verifying", () =>
    Effect.gen(function*() {
      const good = yield* jwkOf("good")
      const { privateJwk } = yield* signerOf("private")
      const p384 = yield* Effect.promise(async () => exportJWK((await generateKeyPair("ES384")).publicKey))
      const search = yield* searchAmong([
        { ...good, kid: "enc", use: "enc" },
        { ...good, kid: "derive", key_ops: ["deriveKey"] },
        { ...good, kid: "ops", key_ops: "verify" },
        { ...good, kid: "other", alg: "ES384" },
        { ...good, kid: "null", d: null },
        { ...p384, kid: "p384" },
        privateJwk,
        { kty: "oct", kid: "oct", k: "AAAA", alg: "ES256" },
        { ...good, kid: "verify", key_ops: ["verify"] }
      ])
      for (const kid of ["enc", "derive", "ops", "other", "null", "p384", "private", "oct"]) {
        assert.strictEqual(yield* search(kid), "InvalidCredential", kid)
      }
      assert.strictEqual(yield* search("verify"), "found")
    }))

  it.effect("of RSA has at least 2048 bits", () =>
    Effect.gen(function*() {
      const rsa = (bits: number): JWK => ({
        ...generateKeyPairSync("rsa", { modulusLength: bits }).publicKey.export({ format: "jwk" }) as JWK,
        kid: `${bits}`
      })
      const search = yield* searchAmong([rsa(1024), rsa(2040), rsa(2048)])
      assert.strictEqual(yield* search("1024", "PS256"), "InvalidCredential")
      assert.strictEqual(yield* search("2040", "PS256"), "InvalidCredential")
      assert.strictEqual(yield* search("2048", "PS256"), "found")
    }))

  it.effect("of RSA is ignored when it is large enough to make verification slow", () =>
    Effect.gen(function*() {
      const jwk = yield* jwkOf("large", "PS256")
      const huge = Buffer.alloc(2048, 0xff).toString("base64url")
      const search = yield* searchAmong([
        yield* jwkOf("good", "PS256"),
        { ...jwk, n: huge },
        { ...jwk, kid: "exponent", e: jwk.n },
        { ...jwk, kid: "text", n: 1 }
      ])
      for (const kid of ["large", "exponent", "text"]) {
        assert.strictEqual(yield* search(kid, "PS256"), "InvalidCredential", kid)
      }
    }))
})
