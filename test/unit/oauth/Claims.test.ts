/**
 * The claims of a JWT access token are checked as RFC 9068 requires. The tests change one claim of a good token at a
 * time.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import { mcpResource } from "../../../src/domain/McpResource.ts"
import { audience, epoch, issuer, tokenOf } from "../../fixtures/oauth/Issuing.ts"
import { allAccepted, allRefused, makeScene, verdictOn, verdictOnClaims } from "../../fixtures/oauth/TokenScene.ts"

const mcp = mcpResource(audience)

describe("A JWT access token", () => {
  it.effect("names its issuer, letter for letter", () =>
    allRefused([`${issuer}/`, "https://AS.test", "https://other.test", undefined, null, [issuer], ""]
      .map((iss) => ({ iss }))))

  it.effect("is refused when its audience is no text or list of texts", () =>
    allRefused([undefined, null, { [audience]: 1 }, [audience, 1]].map((aud) => ({ aud }))))

  it.effect.prop(
    "for a resource of the gateway names the gateway or that resource in its audience",
    [
      Schema.Array(Schema.Literals([audience, mcp, `${mcp}/`, `${mcp}/v1`, "https://other.test", "/mcp"])).check(
        Schema.isMaxLength(4)
      ),
      Schema.NullOr(Schema.Literal(mcp))
    ],
    ([audiences, resource]) =>
      Effect.gen(function*() {
        const { signer, verify } = yield* makeScene()
        const isGood = audiences.includes(audience) || resource !== null && audiences.includes(resource)
        for (const aud of audiences.length === 1 ? [audiences, audiences[0]] : [audiences, audiences.toReversed()]) {
          const token = yield* tokenOf(signer, { aud })
          const verdict = yield* verdictOn((token) => verify(token, resource), token)
          assert.strictEqual(verdict, isGood ? "accepted" : "InvalidCredential")
        }
      })
  )

  it.effect("for one resource is good for that resource alone, in any order and with cached signatures", () =>
    Effect.gen(function*() {
      for (const [first, second] of [[mcp, null], [null, mcp]] as const) {
        const { signer, verify } = yield* makeScene({ signatureTimeToLive: "1 minute" })
        const token = yield* tokenOf(signer, { aud: [mcp, "https://other.test"] })
        for (const resource of [first, second, first, second]) {
          assert.strictEqual(
            yield* verdictOn((token) => verify(token, resource), token),
            resource === mcp ? "accepted" : "InvalidCredential"
          )
        }
      }
    }))

  it.effect("expires, with a tolerance of five seconds between the clocks", () =>
    Effect.gen(function*() {
      const { signer, verify } = yield* makeScene()
      const token = yield* tokenOf(signer, { exp: epoch + 10 })
      yield* TestClock.setTime((epoch + 14.999) * 1000)
      assert.strictEqual(yield* verdictOn(verify, token), "accepted")
      yield* TestClock.setTime((epoch + 15) * 1000)
      assert.strictEqual(yield* verdictOn(verify, token), "InvalidCredential")
    }))

  it.effect("is refused before its nbf and iat, with a tolerance of five seconds between the clocks", () =>
    Effect.gen(function*() {
      yield* allAccepted([{ nbf: epoch + 5 }, { iat: epoch + 5 }, { nbf: 0 }, { iat: 0 }])
      yield* allRefused([{ nbf: epoch + 6 }, { iat: epoch + 6 }, { iat: epoch + 5.5 }])
    }))

  it.effect("is checked with the configured clock tolerance", () =>
    Effect.gen(function*() {
      const tolerance = { clockTolerance: "30 seconds" } as const
      assert.strictEqual(yield* verdictOnClaims({ exp: epoch - 29 }, {}, tolerance), "accepted")
      assert.strictEqual(yield* verdictOnClaims({ exp: epoch - 30 }, {}, tolerance), "InvalidCredential")
      assert.strictEqual(yield* verdictOnClaims({ exp: epoch }, {}, { clockTolerance: 0 }), "InvalidCredential")
    }))

  it.effect("is refused when a time is not a number of seconds", () =>
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

  it.effect("has jti, sub and client_id, in a form that the gateway can store", () =>
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

  it.effect("names the grant in the configured claim", () =>
    Effect.gen(function*() {
      const options = { grantClaim: "urn:grant" }
      assert.strictEqual(yield* verdictOnClaims({}, {}, options), "InvalidCredential")
      assert.strictEqual(yield* verdictOnClaims({ "urn:grant": "g" }, {}, options), "accepted")
      // Members that every JavaScript object inherits are no claims.
      assert.strictEqual(yield* verdictOnClaims({}, {}, { grantClaim: "toString" }), "InvalidCredential")
      assert.strictEqual(yield* verdictOnClaims({}, {}, { grantClaim: "__proto__" }), "InvalidCredential")
    }))

  it.effect("lists scopes in the form of RFC 6749, and allows nothing without them", () =>
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

  it.effect("names its confirmation, and is refused when the gateway cannot check that", () =>
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
          { x5t: print },
          { jku: "https://x" },
          ...["", null, print + "a", print.slice(1) + "="].map((jkt) => ({ jkt })),
          { jkt: print, kid: "1" },
          { jkt: print, "x5t#S256": null }
        ]
          .map((cnf) => ({ cnf }))
      )
    }))
})
