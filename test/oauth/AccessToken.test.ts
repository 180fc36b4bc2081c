import { assert, describe, it } from "@effect/vitest"
import { type Duration, Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { createHmac } from "node:crypto"
import { claimedIssuer, makeAccessTokens } from "../../src/oauth/AccessToken.ts"
import { type IssuerOptions, issuerSettings } from "../../src/oauth/Issuer.ts"
import { type FakeServer, layerOf, makeFakeServer } from "./FakeServer.ts"
import { audience, type Changes, claimsOf, epoch, issuer, sign, type Signer, signerOf, tokenOf } from "./Issuing.ts"

const makeVerifier = (
  server: FakeServer,
  options: Partial<IssuerOptions> & { signatureTimeToLive?: Duration.Input } = {}
) =>
  Effect.map(
    Effect.provide(
      makeAccessTokens({
        ...issuerSettings({ issuer, audience, ...options }),
        signatureTimeToLive: options.signatureTimeToLive ?? 0
      }),
      layerOf(server)
    ),
    (verify) => (token: string) => verify(Redacted.make(token))
  )

/** A verifier at a time that is not the beginning of all times, with a server that has one key. */
const makeScene = Effect.fnUntraced(function*(options: Parameters<typeof makeVerifier>[1] = {}) {
  yield* TestClock.setTime(epoch * 1000)
  const signer = yield* signerOf("one")
  const server = makeFakeServer([signer.jwk])
  return { signer, server, verify: yield* makeVerifier(server, options) }
})

const verdictOn = (verify: (token: string) => Effect.Effect<unknown, { readonly _tag: string }>, token: string) =>
  Effect.match(verify(token), { onSuccess: () => "accepted", onFailure: ({ _tag }) => _tag })

const verdictOnClaims = (claims: Changes, header: Changes = {}, options: Partial<IssuerOptions> = {}) =>
  Effect.gen(function*() {
    const { signer, verify } = yield* makeScene(options)
    return yield* verdictOn(verify, yield* tokenOf(signer, claims, header))
  })

const allRefused = (claims: ReadonlyArray<Changes>) =>
  Effect.forEach(claims, (changes) =>
    Effect.map(
      verdictOnClaims(changes),
      (verdict) => assert.strictEqual(verdict, "InvalidCredential", JSON.stringify(changes))
    ))

const allAccepted = (claims: ReadonlyArray<Changes>) =>
  Effect.forEach(claims, (changes) =>
    Effect.map(
      verdictOnClaims(changes),
      (verdict) => assert.strictEqual(verdict, "accepted", JSON.stringify(changes))
    ))

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url")

describe("A JWT access token", () => {
  it.effect("says who asks, under which grant, and with which scopes", () =>
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

  it.effect("may be signed by ES256, EdDSA, Ed25519 and PS256", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      for (const algorithm of ["ES256", "EdDSA", "Ed25519", "PS256"]) {
        const signer = yield* signerOf("own", algorithm)
        const verify = yield* makeVerifier(makeFakeServer([signer.jwk]))
        assert.strictEqual(yield* verdictOn(verify, yield* tokenOf(signer)), "accepted", algorithm)
      }
    }))

  it.effect("may be signed by RS256 only where that was opted in", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const signer = yield* signerOf("rsa", "RS256")
      const server = makeFakeServer([signer.jwk])
      const token = yield* tokenOf(signer)
      assert.strictEqual(yield* verdictOn(yield* makeVerifier(server), token), "InvalidCredential")
      const optedIn = yield* makeVerifier(server, { algorithms: ["RS256"] })
      assert.strictEqual(yield* verdictOn(optedIn, token), "accepted")
    }))

  it.effect("is never unsigned, nor signed with what is public", () =>
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

  it.effect("is of the type at+jwt", () =>
    Effect.gen(function*() {
      for (const typ of ["at+jwt", "application/at+jwt", "AT+JWT"]) {
        assert.strictEqual(yield* verdictOnClaims({}, { typ }), "accepted", typ)
      }
      for (const typ of [undefined, "JWT", "jwt", "id_token+jwt", "dpop+jwt", "at+jwt2", "text/at+jwt", "", 1, null]) {
        assert.strictEqual(yield* verdictOnClaims({}, { typ }), "InvalidCredential", `${typ}`)
      }
    }))

  it.effect("has no extension that must be understood", () =>
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

  it.effect("is verified with keys of the issuer, and never with one that it brings along or points to", () =>
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

  it.effect("is of its issuer, letter for letter", () =>
    allRefused([`${issuer}/`, "https://AS.test", "https://other.test", undefined, null, [issuer], ""]
      .map((iss) => ({ iss }))))

  it.effect("that names another issuer, type or algorithm makes nobody ask for keys", () =>
    Effect.gen(function*() {
      const { server, signer, verify } = yield* makeScene()
      yield* verdictOn(verify, yield* tokenOf(signer, { iss: "https://other.test" }))
      yield* verdictOn(verify, yield* tokenOf(signer, {}, { typ: "JWT" }))
      yield* verdictOn(verify, yield* tokenOf(yield* signerOf("rsa", "RS256")))
      yield* verdictOn(verify, "a.b.c")
      assert.lengthOf(server.requests, 0)
    }))

  it.effect("is meant for the gateway, and may be meant for others too", () =>
    Effect.gen(function*() {
      yield* allAccepted([{ aud: [audience] }, { aud: ["https://other.test", audience] }])
      yield* allRefused(
        ["https://other.test", `${audience}/`, [], ["https://other.test"], undefined, null, { [audience]: 1 }, [
          audience,
          1
        ]]
          .map((aud) => ({ aud }))
      )
    }))

  it.effect("expires, with five seconds for the difference of the clocks", () =>
    Effect.gen(function*() {
      const { signer, verify } = yield* makeScene()
      const token = yield* tokenOf(signer, { exp: epoch + 10 })
      yield* TestClock.setTime((epoch + 14.999) * 1000)
      assert.strictEqual(yield* verdictOn(verify, token), "accepted")
      yield* TestClock.setTime((epoch + 15) * 1000)
      assert.strictEqual(yield* verdictOn(verify, token), "InvalidCredential")
    }))

  it.effect("is not good before its time, with five seconds for the difference of the clocks", () =>
    Effect.gen(function*() {
      yield* allAccepted([{ nbf: epoch + 5 }, { iat: epoch + 5 }, { nbf: 0 }, { iat: 0 }])
      yield* allRefused([{ nbf: epoch + 6 }, { iat: epoch + 6 }, { iat: epoch + 5.5 }])
    }))

  it.effect("has the tolerance that is configured", () =>
    Effect.gen(function*() {
      const tolerance = { clockTolerance: "30 seconds" } as const
      assert.strictEqual(yield* verdictOnClaims({ exp: epoch - 29 }, {}, tolerance), "accepted")
      assert.strictEqual(yield* verdictOnClaims({ exp: epoch - 30 }, {}, tolerance), "InvalidCredential")
      assert.strictEqual(yield* verdictOnClaims({ exp: epoch }, {}, { clockTolerance: 0 }), "InvalidCredential")
    }))

  it.effect("has times that are times", () =>
    Effect.gen(function*() {
      const { signer, verify } = yield* makeScene()
      yield* allRefused(
        ["exp", "iat", "nbf"].flatMap((name) =>
          ["1", `${epoch}`, null, true, [epoch], {}, -1, 253_402_300_800].map((value) => ({ [name]: value }))
        )
      )
      yield* allRefused([{ exp: undefined }, { iat: undefined }])
      assert.strictEqual(yield* verdictOn(verify, yield* tokenOf(signer, { exp: 1e308 })), "InvalidCredential")
    }))

  it.effect("names itself, subject and client, in the form that the gateway stores", () =>
    Effect.gen(function*() {
      yield* allRefused([{ jti: undefined }, { jti: "" }, { jti: 1 }])
      yield* allRefused(
        ["sub", "client_id", "grant_id"].flatMap((name) =>
          [undefined, null, "", 1, ["x"], {}, "with blank", "x".repeat(256), "nul\0", "ü", "\ud800"]
            .map((value) => ({ [name]: value }))
        )
      )
      yield* allAccepted([{ sub: "x".repeat(255) }, { client_id: "https://agent.test" }, { grant_id: "g" }])
    }))

  it.effect("names the grant in the claim that is configured", () =>
    Effect.gen(function*() {
      const options = { grantClaim: "urn:grant" }
      assert.strictEqual(yield* verdictOnClaims({}, {}, options), "InvalidCredential")
      assert.strictEqual(yield* verdictOnClaims({ "urn:grant": "g" }, {}, options), "accepted")
      // Members that every object has are no claims.
      assert.strictEqual(yield* verdictOnClaims({}, {}, { grantClaim: "toString" }), "InvalidCredential")
      assert.strictEqual(yield* verdictOnClaims({}, {}, { grantClaim: "__proto__" }), "InvalidCredential")
    }))

  it.effect("lists scopes as RFC 6749 has them; without any it allows nothing", () =>
    Effect.gen(function*() {
      const { signer, verify } = yield* makeScene()
      for (const scope of [undefined, ""]) {
        assert.deepStrictEqual((yield* verify(yield* tokenOf(signer, { scope }))).scopes, [])
      }
      yield* allRefused(
        [" ", "a  b", " a", "a ", "a\tb", `a"b`, "a\\b", "ä", "x".repeat(129), 1, null, ["a"]]
          .map((scope) => ({ scope }))
      )
    }))

  it.effect("says whom it is bound to, and is refused when we could not check that", () =>
    Effect.gen(function*() {
      const { signer, verify } = yield* makeScene()
      const print = "a".repeat(43)
      const confirmationOf = (cnf: unknown) =>
        Effect.map(Effect.flatMap(tokenOf(signer, { cnf }), verify), ({ confirmation }) => confirmation)
      assert.deepStrictEqual(yield* confirmationOf({ jkt: print }), { jkt: print, x5t: null })
      assert.deepStrictEqual(yield* confirmationOf({ "x5t#S256": print }), { jkt: null, x5t: print })
      assert.deepStrictEqual(yield* confirmationOf({ jkt: print, "x5t#S256": print }), { jkt: print, x5t: print })
      yield* allRefused(
        [
          {},
          null,
          "jkt",
          [],
          [print],
          { jwk: {} },
          { jkt: print, kid: "1" },
          { jkt: print, "x5t#S256": null },
          {
            jkt: ""
          },
          { jkt: print + "a" },
          { jkt: print.slice(1) + "=" },
          { jkt: null },
          { "x5t": print },
          { jku: "https://x" }
        ]
          .map((cnf) => ({ cnf }))
      )
    }))

  it.effect("is 8 KiB long at most", () =>
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

  it.effect("is a compact JWS of a JSON object, and nothing else", () =>
    Effect.gen(function*() {
      const { signer, verify } = yield* makeScene()
      const token = yield* tokenOf(signer)
      const [header, payload, signature] = token.split(".") as [string, string, string]
      const tokens = [
        "",
        ".",
        "..",
        "...",
        header,
        `${header}.${payload}`,
        `${token}.`,
        `${token}.${signature}`,
        `.${token}`,
        ` ${token}`,
        `${token} `,
        `${token}\n`,
        `${token}=`,
        `${header}..${signature}`,
        `${header}.${payload}.`,
        `${encode([])}.${payload}.${signature}`,
        `${encode(null)}.${payload}.${signature}`,
        `eyJ.${payload}.${signature}`
      ]
      for (const one of tokens) assert.strictEqual(yield* verdictOn(verify, one), "InvalidCredential", one)
    }))

  it.effect("cannot be verified while the keys cannot be fetched: that is not its fault", () =>
    Effect.gen(function*() {
      const { server, signer, verify } = yield* makeScene()
      server.isDown = true
      assert.strictEqual(yield* verdictOn(verify, yield* tokenOf(signer)), "AuthorizationUnavailable")
    }))

  it.effect("shows nothing of itself in a failure", () =>
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

  it.effect("that was changed anywhere is refused, whatever the change", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(epoch * 1000)
      const signer: Signer = yield* signerOf("one")
      const verify = yield* makeVerifier(makeFakeServer([signer.jwk]))
      const token = yield* tokenOf(signer)
      assert.strictEqual(yield* verdictOn(verify, token), "accepted")
      const mutations = fc.sample(mutationOf(token), { numRuns: 2000, seed: 42 })
      let tried = 0
      for (const mutated of mutations) {
        if (mutated === token) continue
        tried++
        assert.strictEqual(yield* verdictOn(verify, mutated), "InvalidCredential", mutated)
      }
      assert.isAbove(tried, 1500)
    }), 60_000)
})

/** Characters replaced, taken out, put in, and parts exchanged. */
const mutationOf = (token: string) => {
  const place = fc.nat(token.length - 1)
  const character = fc.constantFrom(..."ABCabc019-_.=+/ {}\"\0\n")
  const changed = fc.tuple(place, character).map(([at, put]) => token.slice(0, at) + put + token.slice(at + 1))
  const shortened = fc.tuple(place, fc.integer({ min: 1, max: 40 }))
    .map(([at, length]) => token.slice(0, at) + token.slice(at + length))
  const lengthened = fc.tuple(place, fc.array(character, { minLength: 1, maxLength: 8 }))
    .map(([at, put]) => token.slice(0, at) + put.join("") + token.slice(at))
  const shuffled = fc.shuffledSubarray(token.split("."), { minLength: 1 }).map((parts) => parts.join("."))
  return fc.oneof(changed, shortened, lengthened, shuffled)
}

describe("The issuer that a token claims", () => {
  it.effect("is what the token says, verified or not; null for what is no JWT", () =>
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
