/**
 * A JWT access token is accepted only with a valid header and a signature by a key of its issuer. The tests break one
 * rule at a time, and change good tokens at random.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { createHmac } from "node:crypto"
import { claimedIssuer } from "../../../src/oauth/JwtAccessToken.ts"
import { makeFakeServer } from "../../fixtures/oauth/FakeServer.ts"
import { claimsOf, encode, epoch, issuer, sign, signerOf, tokenOf } from "../../fixtures/oauth/Issuing.ts"
import { makeScene, makeVerifier, verdictOn, verdictOnClaims } from "../../fixtures/oauth/TokenScene.ts"

describe("A JWT access token", () => {
  it.effect("yields client, subject, grant and scopes", () =>
    Effect.gen(function*() {
      const { signer, verify } = yield* makeScene()
      const claims = { resource_owner: "owner-1", nbf: epoch - 10 }
      const verified = yield* verify(yield* tokenOf(signer, claims))
      assert.deepStrictEqual(verified as unknown, {
        issuer,
        client_id: "agent-1",
        subject: "subject-1",
        grant: "grant-1",
        scopes: ["operations:read", "payments:write"],
        issued_at: epoch,
        expires_at: epoch + 300,
        confirmation: { jkt: null, x5t: null },
        claims: claimsOf(epoch, claims)
      })
    }))

  it.effect("may be signed with RS256 only if the configuration opts in", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const signer = yield* signerOf("rsa", "RS256")
      const server = makeFakeServer([signer.jwk])
      const token = yield* tokenOf(signer)
      assert.strictEqual(yield* verdictOn(yield* makeVerifier(server), token), "InvalidCredential")
      const optedIn = yield* makeVerifier(server, { algorithms: ["RS256"] })
      assert.strictEqual(yield* verdictOn(optedIn, token), "accepted")
    }))

  it.effect("is refused when it is unsigned or signed with a public value", () =>
    Effect.gen(function*() {
      const { signer, verify } = yield* makeScene()
      const claims = encode(claimsOf(epoch))
      const header = { typ: "at+jwt", kid: "one" }
      for (const alg of ["none", "None", "NONE", ""]) {
        assert.strictEqual(yield* verdictOn(verify, `${encode({ alg, ...header })}.${claims}.`), "InvalidCredential")
        assert.strictEqual(yield* verdictOn(verify, `${encode({ alg, ...header })}.${claims}.AA`), "InvalidCredential")
      }
      for (const secret of [JSON.stringify(signer.jwk), signer.jwk.x!, Buffer.from(signer.jwk.x!, "base64url")]) {
        const input = `${encode({ alg: "HS256", ...header })}.${claims}`
        const signature = createHmac("sha256", secret).update(input).digest("base64url")
        assert.strictEqual(yield* verdictOn(verify, `${input}.${signature}`), "InvalidCredential")
      }
    }))

  it.effect("has the type at+jwt", () =>
    Effect.gen(function*() {
      for (const typ of ["at+jwt", "application/at+jwt", "AT+JWT"]) {
        assert.strictEqual(yield* verdictOnClaims({}, { typ }), "accepted", typ)
      }
      for (const typ of [undefined, "JWT", "jwt", "id_token+jwt", "dpop+jwt", "at+jwt2", "text/at+jwt", "", 1, null]) {
        assert.strictEqual(yield* verdictOnClaims({}, { typ }), "InvalidCredential", `${typ}`)
      }
    }))

  it.effect("is refused when it names a critical extension", () =>
    Effect.gen(function*() {
      const { signer, verify } = yield* makeScene()
      const header = { alg: "ES256", typ: "at+jwt", kid: "one" }
      const critical = yield* sign(signer, { ...header, crit: ["b64"], b64: true }, claimsOf(epoch))
      assert.strictEqual(yield* verdictOn(verify, critical), "InvalidCredential")
      const good = (yield* tokenOf(signer)).split(".")
      for (const crit of [[], ["exp"], "exp", null]) {
        const forged = `${encode({ ...header, crit })}.${good[1]}.${good[2]}`
        assert.strictEqual(yield* verdictOn(verify, forged), "InvalidCredential")
      }
    }))

  it.effect("is verified with keys of the issuer, never with a key that its header holds or points to", () =>
    Effect.gen(function*() {
      const { server, signer, verify } = yield* makeScene()
      const thief = yield* signerOf("thief")
      server.serve("/thief", { keys: [thief.jwk] })
      const jku = `${issuer}/thief`
      for (const header of [{ jwk: thief.jwk }, { jku }, { x5u: jku }, { x5c: ["AAAA"] }]) {
        for (const kid of ["one", "thief", undefined]) {
          const verdict = yield* verdictOn(verify, yield* tokenOf(thief, {}, { kid, ...header }))
          assert.strictEqual(verdict, "InvalidCredential")
        }
        assert.strictEqual(yield* verdictOn(verify, yield* tokenOf(signer, {}, header)), "accepted")
      }
      assert.strictEqual(server.asked("/thief"), 0)
    }))

  it.effect("that names another issuer, type or algorithm causes no request for keys", () =>
    Effect.gen(function*() {
      const { server, signer, verify } = yield* makeScene()
      yield* verdictOn(verify, yield* tokenOf(signer, { iss: "https://other.test" }))
      yield* verdictOn(verify, yield* tokenOf(signer, {}, { typ: "JWT" }))
      yield* verdictOn(verify, yield* tokenOf(yield* signerOf("rsa", "RS256")))
      yield* verdictOn(verify, "a.b.c")
      assert.lengthOf(server.requests, 0)
    }))

  it.effect("is at most 8 KiB long", () =>
    Effect.gen(function*() {
      const { server, signer, verify } = yield* makeScene()
      const short = yield* tokenOf(signer, { padding: "x".repeat(5500) })
      assert.isBelow(short.length, 8193)
      assert.strictEqual(yield* verdictOn(verify, short), "accepted")
      const before = server.requests.length
      const long = yield* tokenOf(signer, { padding: "x".repeat(6000) }, { kid: "other" })
      assert.isAbove(long.length, 8192)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* verdictOn(verify, long), "InvalidCredential")
      assert.strictEqual(server.requests.length, before)
    }))

  it.effect("is a compact JWS of a JSON object with all of its parts", () =>
    Effect.gen(function*() {
      const { signer, verify } = yield* makeScene()
      const token = yield* tokenOf(signer)
      const [header, payload, signature] = token.split(".") as [string, string, string]
      const tokens = [
        "",
        "..",
        header,
        `${header}.${payload}`,
        `${header}..${signature}`,
        `${header}.${payload}.`,
        `${encode([])}.${payload}.${signature}`,
        `${encode(null)}.${payload}.${signature}`,
        `eyJ.${payload}.${signature}`
      ]
      for (const one of tokens) assert.strictEqual(yield* verdictOn(verify, one), "InvalidCredential", one)
    }))

  it.effect("does not appear in the failure that it causes", () =>
    Effect.gen(function*() {
      const { server, signer, verify } = yield* makeScene()
      const token = yield* tokenOf(signer, { aud: "https://other.test", sub: "secret-subject" })
      const refused = yield* Effect.flip(verify(token))
      server.isDown = true
      yield* TestClock.adjust("1 hour")
      const unavailable = yield* Effect.flip(verify(yield* tokenOf(signer)))
      for (const error of [refused, unavailable]) {
        const shown = `${JSON.stringify(error)} ${String(error)} ${(error as Error).stack}`
        assert.notInclude(shown, "secret-subject")
        assert.notInclude(shown, token.split(".")[1]!)
        assert.notInclude(shown, token.split(".")[2]!)
      }
    }))
})

describe("The unverified issuer of a token", () => {
  it.effect("is the claim iss, and null when the token is not a JWT", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const token = yield* tokenOf(yield* signerOf("one"), { iss: "https://other.test" })
      assert.strictEqual(claimedIssuer(token), "https://other.test")
      const [header] = token.split(".")
      for (const other of ["", "fingw_abc", "a.b.c", `${header}.${encode({ iss: 1 })}.x`, `${header}.${encode(1)}.x`]) {
        assert.isNull(claimedIssuer(other))
      }
    }))
})
