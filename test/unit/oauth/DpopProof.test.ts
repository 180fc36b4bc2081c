/**
 * A DPoP proof passes the checks of RFC 9449 §4.3 for its request, in their order. The tests break one rule of a good
 * proof at a time.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Duration, Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { makeDpopNonces } from "../../../src/oauth/DpopNonces.ts"
import { defaultDpopSettings, type DpopSettings, validateDpopSettings } from "../../../src/oauth/DpopProof.ts"
import { athOf, epoch, proofOf, provenOf, signerOf, thumbprintOf } from "../../fixtures/oauth/Issuing.ts"
import { eachVerdict, judged, makeScene, makeVerify, token, url, verdictOn } from "../../fixtures/oauth/ProofScene.ts"

describe("A DPoP proof", () => {
  it.effect("that is good yields its key, its identifier, and the time until which it must be remembered", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const signer = yield* signerOf("agent")
      const verify = yield* makeVerify()
      const jkt = thumbprintOf(signer.jwk)
      assert.deepStrictEqual(
        yield* verify(provenOf(token, yield* proofOf(signer, token, { iat: epoch - 20 })), jkt),
        { jti: "proof-1", jkt, expires_at: DateTime.makeUnsafe((epoch - 20 + 65) * 1000) }
      )
    }))

  it.effect("may be signed with ES256, EdDSA, Ed25519 and PS256, and with no other algorithm", () =>
    Effect.gen(function*() {
      for (const algorithm of ["ES256", "EdDSA", "Ed25519", "PS256"]) {
        const signer = yield* signerOf("agent", algorithm)
        assert.strictEqual(yield* verdictOn({}, { signer }), "accepted", algorithm)
      }
      for (const algorithm of ["RS256", "ES384"]) {
        const signer = yield* signerOf("agent", algorithm)
        assert.strictEqual(yield* verdictOn({}, { signer }), "has an algorithm that is not accepted", algorithm)
        const settings = { algorithms: [algorithm] }
        assert.strictEqual(yield* verdictOn({}, { signer, settings }), "accepted", algorithm)
      }
    }))

  it.effect("must be present (check 1)", () =>
    Effect.gen(function*() {
      const verify = yield* makeVerify()
      assert.strictEqual(
        yield* judged(verify(provenOf(token, "", { proof: null }), "x")),
        "is missing"
      )
    }))

  it.effect("has all required claims, with their types (check 3)", () =>
    Effect.gen(function*() {
      const absent = [undefined, null, 1, true, {}, []]
      yield* eachVerdict("jti", [...absent, "", "x".repeat(257)], "needs an identifier of 1 to 256 characters")
      yield* eachVerdict("jti", ["x", "x".repeat(256), "ü"], "accepted")
      yield* eachVerdict("htm", absent, "is for another method")
      yield* eachVerdict("htu", absent, "is for another URL")
      yield* eachVerdict("ath", absent, "is for another token")
      yield* eachVerdict("iat", [undefined], "does not say when it was made")
      // jose refuses these before the gateway's own check.
      yield* eachVerdict("iat", [null, `${epoch}`, {}], "is not signed by its key, or has expired")
    }))

  it.effect("has the type dpop+jwt (check 4)", () =>
    Effect.gen(function*() {
      for (const typ of ["dpop+jwt", "application/dpop+jwt", "DPoP+JWT"]) {
        assert.strictEqual(yield* verdictOn({}, { header: { typ } }), "accepted")
      }
      for (const typ of [undefined, null, 1, "", "jwt", "JWT", "at+jwt", "dpop+jwt2"]) {
        assert.strictEqual(yield* verdictOn({}, { header: { typ } }), "has another type", `${typ}`)
      }
    }))

  it.effect("names the method, letter for letter (check 8)", () =>
    Effect.gen(function*() {
      yield* eachVerdict("htm", ["POST", "get", "Get", "", "GET "], "is for another method")
      assert.strictEqual(yield* verdictOn({ htm: "POST" }, { credential: { method: "POST" } }), "accepted")
    }))

  it.effect("names the URL, in any equivalent spelling and with any query (check 9)", () =>
    Effect.gen(function*() {
      yield* eachVerdict("htu", [
        `${url}?page_size=1#top`,
        "https://GATEWAY.TEST:443/v1/./x/../oper%61tions"
      ], "accepted")
      yield* eachVerdict("htu", [
        `${url}/`,
        "http://gateway.test/v1/operations",
        "https://gateway.test:8443/v1/operations",
        "https://gateway.test/V1/operations",
        "https://other.test/v1/operations",
        "/v1/operations",
        ""
      ], "is for another URL")
      const credential = { url: "https://GATEWAY.test:443/v1/%6Fperations?page_size=1" }
      assert.strictEqual(yield* verdictOn({}, { credential }), "accepted")
      // Two invalid URLs are not equal.
      assert.strictEqual(yield* verdictOn({ htu: "" }, { credential: { url: "" } }), "is for another URL")
    }))

  it.effect("carries the required nonce, which is checked after everything else (check 10)", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const nonces = yield* makeDpopNonces(Redacted.make(new Uint8Array(32)))
      const nonce = yield* nonces.current
      const settings = { nonces }
      assert.strictEqual(yield* verdictOn({ nonce }, { settings }), "accepted")
      for (const other of [undefined, null, "", 1, "x".repeat(43), [nonce]]) {
        assert.strictEqual(yield* verdictOn({ nonce: other }, { settings }), "NonceRequired")
      }
      assert.strictEqual(yield* verdictOn({ htm: "POST" }, { settings }), "is for another method")
      assert.strictEqual(yield* verdictOn({ iat: epoch - 100 }, { settings }), "is too old")
      const signer = yield* signerOf("agent")
      const verify = yield* makeVerify(settings)
      const failure = yield* Effect.flip(
        verify(provenOf(token, yield* proofOf(signer, token)), thumbprintOf(signer.jwk))
      )
      assert.strictEqual(failure._tag === "NonceRequired" ? failure.nonce : "", nonce)
    }))

  it.effect("may carry any nonce where none is required", () => eachVerdict("nonce", ["x", 1, null], "accepted"))

  it.effect("is at most a minute and five seconds old, and at most five seconds ahead (check 11)", () =>
    Effect.gen(function*() {
      yield* eachVerdict("iat", [epoch, epoch - 65, epoch + 5, epoch - 64.5], "accepted")
      yield* eachVerdict("iat", [epoch - 66, epoch - 65.5, 0], "is too old")
      yield* eachVerdict("iat", [epoch + 6, epoch + 5.5, 1e300], "was made in the future")
      const settings = { maxAge: Duration.seconds(10), clockTolerance: Duration.seconds(1) }
      assert.strictEqual(yield* verdictOn({ iat: epoch - 11 }, { settings }), "accepted")
      assert.strictEqual(yield* verdictOn({ iat: epoch - 12 }, { settings }), "is too old")
      assert.strictEqual(yield* verdictOn({ iat: epoch + 2 }, { settings }), "was made in the future")
    }))

  it.effect("must be remembered for exactly as long as it is accepted", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const signer = yield* signerOf("agent")
      const verify = yield* makeVerify()
      const credential = provenOf(token, yield* proofOf(signer, token, { iat: epoch + 4.25 }))
      const { expires_at } = yield* verify(credential, thumbprintOf(signer.jwk))
      yield* TestClock.setTime(expires_at.epochMilliseconds)
      assert.strictEqual(yield* judged(verify(credential, thumbprintOf(signer.jwk))), "accepted")
      yield* TestClock.setTime(expires_at.epochMilliseconds + 1)
      assert.strictEqual(yield* judged(verify(credential, thumbprintOf(signer.jwk))), "is too old")
    }))

  it.effect("is refused after its own exp", () =>
    Effect.gen(function*() {
      yield* eachVerdict("exp", [epoch + 10, epoch], "accepted")
      yield* eachVerdict("exp", [epoch - 6, "soon"], "is not signed by its key, or has expired")
      yield* eachVerdict("nbf", [epoch + 6], "is not signed by its key, or has expired")
    }))

  it.effect("names the hash of the token (check 12)", () =>
    eachVerdict("ath", [athOf("other"), athOf(token) + "=", athOf(token).toLowerCase(), token], "is for another token"))

  it.effect("is signed by the key that the token is bound to (check 12)", () =>
    Effect.gen(function*() {
      const { verdict } = yield* makeScene()
      const stolen = yield* proofOf(yield* signerOf("thief"), token)
      assert.strictEqual(yield* verdict(stolen), "is of another key than the token")
    }))

  it.effect("is refused when it names a critical extension", () =>
    Effect.gen(function*() {
      const header = { crit: ["b64"], b64: true }
      assert.strictEqual(yield* verdictOn({}, { header }), "has an extension that is not understood")
    }))
})

describe("The settings for DPoP proofs", () => {
  it("are valid by default", () => assert.isNull(validateDpopSettings(defaultDpopSettings)))

  it("limit the age, the clock tolerance and the algorithms", () => {
    const faultOf = (changes: Partial<DpopSettings>) =>
      validateDpopSettings({ ...defaultDpopSettings, ...changes }) ?? ""
    assert.include(faultOf({ maxAge: Duration.seconds(301) }), "between 1 and 300 seconds")
    assert.include(faultOf({ maxAge: Duration.zero }), "between 1 and 300 seconds")
    assert.include(faultOf({ clockTolerance: Duration.seconds(61) }), "between 0 and 60 seconds")
    assert.include(faultOf({ algorithms: ["HS256"] }), "HS256 is not accepted")
    assert.include(faultOf({ algorithms: [] }), "at least one")
  })
})
