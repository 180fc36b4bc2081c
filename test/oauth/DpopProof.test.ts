import { assert, describe, it } from "@effect/vitest"
import { DateTime, Duration, Effect, Redacted } from "effect"
import { Digest } from "effect/crypto"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { createHmac, generateKeyPairSync } from "node:crypto"
import type { Credential } from "../../src/domain/Credential.ts"
import { makeDpopNonces } from "../../src/oauth/DpopNonces.ts"
import { defaultProofSettings, makeProofs, proofFault, type ProofSettings } from "../../src/oauth/DpopProof.ts"
import {
  athOf,
  audience,
  type Changes,
  epoch,
  proofOf,
  provenOf,
  sign,
  type Signer,
  signerOf,
  thumbprintOf
} from "./Issuing.ts"

const token = "the-token"
const url = `${audience}/v1/operations`

const makeVerify = (settings: Partial<ProofSettings> = {}) =>
  Effect.provide(makeProofs({ ...defaultProofSettings, ...settings }), Digest.layerWebCrypto)

interface Request {
  readonly header?: Changes
  readonly credential?: Partial<Credential>
  readonly settings?: Partial<ProofSettings>
  readonly signer?: Signer
}

/** `accepted`, or why the proof is refused. */
const verdictOn = Effect.fnUntraced(function*(claims: Changes, request: Request = {}) {
  yield* TestClock.setTime(epoch * 1000)
  const signer = request.signer ?? (yield* signerOf("agent"))
  const proof = yield* proofOf(signer, token, claims, request.header)
  const verify = yield* makeVerify(request.settings)
  return yield* judged(verify(provenOf(token, proof, request.credential), thumbprintOf(signer.jwk)))
})

const judged = (effect: Effect.Effect<unknown, { readonly _tag: string; readonly reason?: string }>) =>
  Effect.match(effect, { onSuccess: () => "accepted", onFailure: ({ _tag, reason }) => reason ?? _tag })

const eachVerdict = (name: string, values: ReadonlyArray<unknown>, verdict: string) =>
  Effect.forEach(values, (value) =>
    Effect.map(
      verdictOn({ [name]: value }),
      (actual) => assert.strictEqual(actual, verdict, JSON.stringify(value))
    ))

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url")

describe("A DPoP proof", () => {
  it.effect("that is good says by which key it is used, under which name, and until when it must be remembered", () =>
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

  it.effect("may be signed by ES256, EdDSA, Ed25519 and PS256, and by no other algorithm", () =>
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

  it.effect("must be there (check 1)", () =>
    Effect.gen(function*() {
      const verify = yield* makeVerify()
      assert.strictEqual(
        yield* judged(verify(provenOf(token, "", { proof: null }), "x")),
        "is missing"
      )
    }))

  it.effect("comes alone, as one JWT of 8 KiB at most (checks 1 and 2)", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const signer = yield* signerOf("agent")
      const verify = yield* makeVerify()
      const verdict = (proof: string) => judged(verify(provenOf(token, proof), thumbprintOf(signer.jwk)))
      const [one, other] = [yield* proofOf(signer, token), yield* proofOf(signer, token, { jti: "proof-2" })]
      const [header, payload, signature] = one.split(".")
      assert.strictEqual(yield* verdict(one), "accepted")
      const wrong = [
        `${one}, ${other}`,
        `${one},${other}`,
        `${one} ${other}`,
        `${one},`,
        ` ${one}`,
        `${one}\t`,
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

  it.effect("has all claims, in their types (check 3)", () =>
    Effect.gen(function*() {
      const absent = [undefined, null, 1, true, {}, []]
      yield* eachVerdict("jti", [...absent, "", "x".repeat(257)], "needs an identifier of 1 to 256 characters")
      yield* eachVerdict("jti", ["x", "x".repeat(256), "ü"], "accepted")
      yield* eachVerdict("htm", absent, "is for another method")
      yield* eachVerdict("htu", absent, "is for another URL")
      yield* eachVerdict("ath", absent, "is for another token")
      yield* eachVerdict("iat", [undefined], "does not say when it was made")
      // jose refuses these before we do.
      yield* eachVerdict("iat", [null, `${epoch}`, {}], "is not signed by its key, or has expired")
    }))

  it.effect("is of the type dpop+jwt (check 4)", () =>
    Effect.gen(function*() {
      for (const typ of ["dpop+jwt", "application/dpop+jwt", "DPoP+JWT"]) {
        assert.strictEqual(yield* verdictOn({}, { header: { typ } }), "accepted")
      }
      for (const typ of [undefined, null, 1, "", "jwt", "JWT", "at+jwt", "dpop+jwt2"]) {
        assert.strictEqual(yield* verdictOn({}, { header: { typ } }), "has another type", `${typ}`)
      }
    }))

  it.effect("is never unsigned, nor signed with a shared secret (check 5)", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const signer = yield* signerOf("agent")
      const verify = yield* makeVerify()
      const [, payload] = (yield* proofOf(signer, token)).split(".")
      const secret = { kty: "oct", k: Buffer.from("secret").toString("base64url") }
      for (const alg of ["none", "HS256", "HS512"]) {
        for (const jwk of [signer.jwk, secret]) {
          const input = `${encode({ alg, typ: "dpop+jwt", jwk })}.${payload}`
          const signature = createHmac("sha256", "secret").update(input).digest("base64url")
          assert.strictEqual(
            yield* judged(verify(provenOf(token, `${input}.${signature}`), thumbprintOf(signer.jwk))),
            "has an algorithm that is not accepted"
          )
        }
      }
    }))

  it.effect("is signed by the key that it brings (check 6)", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const [signer, thief] = [yield* signerOf("agent"), yield* signerOf("thief")]
      const verify = yield* makeVerify()
      const { crv, kty, x, y } = signer.jwk
      const forged = yield* proofOf(thief, token, {}, { jwk: { crv, kty, x, y } })
      assert.strictEqual(
        yield* judged(verify(provenOf(token, forged), thumbprintOf(signer.jwk))),
        "is not signed by its key, or has expired"
      )
    }))

  it.effect("brings a public key, and no private one (check 7)", () =>
    Effect.gen(function*() {
      const signer = yield* signerOf("agent")
      const verdictOnKey = (jwk: unknown) => verdictOn({}, { header: { jwk } })
      for (const jwk of [undefined, null, "key", 1, []]) {
        assert.strictEqual(yield* verdictOnKey(jwk), "brings no public key")
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
        assert.strictEqual(yield* verdictOnKey(jwk), "brings no public key for its algorithm")
      }
      assert.strictEqual(yield* verdictOnKey({ kty: "oct", k: "AA" }), "is of another key than the token")
      assert.strictEqual(yield* verdictOnKey({ kty: "EC" }), "is of another key than the token")
      assert.strictEqual(yield* verdictOnKey({ ...signer.jwk, ext: false, key_ops: ["verify"] }), "accepted")
    }))

  it.effect("brings an RSA key of at least 2048 bits", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const { publicKey } = generateKeyPairSync("rsa", { modulusLength: 1024 })
      const jwk = publicKey.export({ format: "jwk" })
      const verify = yield* makeVerify()
      const proof = `${encode({ alg: "PS256", typ: "dpop+jwt", jwk })}.${encode({})}.AAAA`
      assert.strictEqual(
        yield* judged(verify(provenOf(token, proof), thumbprintOf(jwk as never))),
        "brings no public key for its algorithm"
      )
    }))

  it.effect("is made for the method, letter for letter (check 8)", () =>
    Effect.gen(function*() {
      yield* eachVerdict("htm", ["POST", "get", "Get", "", "GET "], "is for another method")
      assert.strictEqual(yield* verdictOn({ htm: "POST" }, { credential: { method: "POST" } }), "accepted")
    }))

  it.effect("is made for the URL, however that is written, and whatever its query (check 9)", () =>
    Effect.gen(function*() {
      yield* eachVerdict("htu", [
        url,
        `${url}?page_size=1`,
        `${url}#top`,
        "HTTPS://GATEWAY.TEST/v1/operations",
        "https://gateway.test:443/v1/operations",
        "https://gateway.test/v1/./x/../operations",
        "https://gateway.test/%761/oper%61tions"
      ], "accepted")
      yield* eachVerdict("htu", [
        `${url}/`,
        "http://gateway.test/v1/operations",
        "https://gateway.test:8443/v1/operations",
        "https://gateway.test/V1/operations",
        "https://gateway.test/v1%2Foperations",
        "https://other.test/v1/operations",
        "https://gateway.test@other.test/v1/operations",
        "https://user@gateway.test/v1/operations",
        "https://gateway.test",
        "/v1/operations",
        "//gateway.test/v1/operations",
        "https:gateway.test/v1/operations",
        "https:\\\\gateway.test\\v1\\operations",
        ` ${url}`,
        ""
      ], "is for another URL")
      const credential = { url: "https://GATEWAY.test:443/v1/%6Fperations?page_size=1" }
      assert.strictEqual(yield* verdictOn({}, { credential }), "accepted")
      // Two that are none are not the same.
      assert.strictEqual(yield* verdictOn({ htu: "" }, { credential: { url: "" } }), "is for another URL")
    }))

  it.effect("carries the nonce that is asked for, once everything else is in order (check 10)", () =>
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

  it.effect("may carry any nonce where none is asked for", () => eachVerdict("nonce", ["x", 1, null], "accepted"))

  it.effect("is a minute old at most, and five seconds ahead (check 11)", () =>
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

  it.effect("is held to the expiry that it gives itself", () =>
    Effect.gen(function*() {
      yield* eachVerdict("exp", [epoch + 10, epoch], "accepted")
      yield* eachVerdict("exp", [epoch - 6, "soon"], "is not signed by its key, or has expired")
      yield* eachVerdict("nbf", [epoch + 6], "is not signed by its key, or has expired")
    }))

  it.effect("is made for the token (check 12)", () =>
    eachVerdict("ath", [athOf("other"), athOf(token) + "=", athOf(token).toLowerCase(), token], "is for another token"))

  it.effect("is of the key to which the token is bound (check 12)", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const [signer, thief] = [yield* signerOf("agent"), yield* signerOf("thief")]
      const verify = yield* makeVerify()
      const stolen = provenOf(token, yield* proofOf(thief, token))
      assert.strictEqual(yield* judged(verify(stolen, thumbprintOf(signer.jwk))), "is of another key than the token")
    }))

  it.effect("has no extension that must be understood", () =>
    Effect.gen(function*() {
      const header = { crit: ["b64"], b64: true }
      assert.strictEqual(yield* verdictOn({}, { header }), "has an extension that is not understood")
    }))

  it.effect("shows nothing of itself in a failure", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const signer = yield* signerOf("agent")
      const verify = yield* makeVerify()
      for (const claims of [{ htm: "SECRET" }, { htu: "SECRET" }, { ath: "SECRET" }, { jti: ["SECRET"] }, { exp: 1 }]) {
        const proof = yield* proofOf(signer, token, { ...claims, other: "SECRET" })
        const error = yield* Effect.flip(verify(provenOf(token, proof), thumbprintOf(signer.jwk)))
        assert.notMatch(`${JSON.stringify(error)} ${String(error)} ${(error as Error).stack}`, /SECRET/)
      }
    }))

  it.effect("that was changed anywhere is refused, whatever the change", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const signer = yield* signerOf("agent")
      const verify = yield* makeVerify()
      const proof = yield* proofOf(signer, token)
      const place = fc.nat(proof.length - 1)
      const character = fc.constantFrom(..."ABCabc019-_.=, ")
      const mutations = fc.sample(
        fc.oneof(
          fc.tuple(place, character).map(([at, put]) => proof.slice(0, at) + put + proof.slice(at + 1)),
          fc.tuple(place, fc.nat(20)).map(([at, length]) => proof.slice(0, at) + proof.slice(at + length)),
          fc.tuple(place, character).map(([at, put]) => proof.slice(0, at) + put + proof.slice(at))
        ),
        { numRuns: 2000, seed: 42 }
      )
      for (const mutated of mutations) {
        if (mutated === proof) continue
        const verdict = yield* judged(verify(provenOf(token, mutated), thumbprintOf(signer.jwk)))
        assert.notStrictEqual(verdict, "accepted", mutated)
      }
    }), 60_000)

  it.effect("whose claims or header are anything that JSON can say never makes it die", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const signer = yield* signerOf("agent")
      const verify = yield* makeVerify()
      const names = fc.constantFrom("jti", "htm", "htu", "iat", "ath", "nonce", "exp", "nbf")
      const claims = fc.sample(fc.dictionary(names, fc.jsonValue()), { numRuns: 300, seed: 42 })
      for (const changes of claims) {
        const proof = yield* sign(signer, { alg: "ES256", typ: "dpop+jwt", jwk: signer.jwk }, changes)
        assert.notStrictEqual(
          yield* judged(verify(provenOf(token, proof), thumbprintOf(signer.jwk))),
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
        assert.notStrictEqual(yield* judged(verify(provenOf(token, proof), "x")), "accepted")
      }
    }))
})

describe("The settings for DPoP proofs", () => {
  it("are without fault as they are by default", () => assert.isNull(proofFault(defaultProofSettings)))

  it("bound the age and the tolerance, and know the algorithms", () => {
    const faultOf = (changes: Partial<ProofSettings>) => proofFault({ ...defaultProofSettings, ...changes }) ?? ""
    assert.include(faultOf({ maxAge: Duration.seconds(301) }), "between 1 and 300 seconds")
    assert.include(faultOf({ maxAge: Duration.zero }), "between 1 and 300 seconds")
    assert.include(faultOf({ clockTolerance: Duration.seconds(61) }), "between 0 and 60 seconds")
    assert.include(faultOf({ algorithms: ["HS256"] }), "HS256 is not accepted")
    assert.include(faultOf({ algorithms: [] }), "at least one")
  })
})
