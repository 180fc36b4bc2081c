/**
 * An introspected token is accepted only as RFC 7662 and its server's answer allow. The tests change one member of a
 * good answer at a time.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { mcpResource } from "../../../src/domain/McpResource.ts"
import { answerOf, eachAnswer, eachChange, judged, makeScene, path } from "../../fixtures/oauth/IntrospectionScene.ts"
import { audience, epoch, issuer } from "../../fixtures/oauth/Issuing.ts"

describe("An introspected token", () => {
  it.effect("yields client, subject, grant and scopes", () =>
    Effect.gen(function*() {
      const { verify } = yield* makeScene()
      const verified = yield* verify("t")
      assert.deepStrictEqual({ ...verified, claims: null } as unknown, {
        issuer,
        client_id: "agent-1",
        subject: "subject-1",
        grant: "grant-1",
        scopes: ["operations:read", "payments:write"],
        issued_at: epoch,
        expires_at: epoch + 300,
        confirmation: { jkt: null, x5t: null },
        claims: null
      })
    }))

  it.effect("for one resource is good for that resource alone, in any order, with a cached answer and a shared one", () =>
    Effect.gen(function*() {
      const mcp = mcpResource(audience)
      const orders = [[mcp, null, mcp, null], [null, mcp, null, mcp]]
      for (const concurrency of [1, 2]) {
        for (const resources of orders) {
          for (const answerTimeToLive of [Duration.zero, Duration.minutes(1)]) {
            const { server, verify } = yield* makeScene({ answerTimeToLive })
            server.serve(path, answerOf({ aud: mcp }))
            const verdicts = yield* Effect.forEach(
              resources,
              (resource) => judged(verify("t", resource)),
              { concurrency }
            )
            const expected = (resource: string | null) => resource === mcp ? "accepted" : "InvalidCredential"
            assert.deepStrictEqual(verdicts, resources.map(expected))
          }
        }
      }
    }))

  it.effect("is sent by POST in a form, and the answer must be JSON", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene()
      yield* verify("a+b/c~d==")
      const [request] = server.requests
      assert.strictEqual(request!.method, "POST")
      assert.strictEqual(request!.url, `${issuer}${path}`)
      assert.strictEqual(request!.headers["content-type"], "application/x-www-form-urlencoded")
      assert.strictEqual(request!.headers["accept"], "application/json")
      assert.deepStrictEqual(
        [...new URLSearchParams(request!.body)],
        [["token", "a+b/c~d=="], ["token_type_hint", "access_token"]]
      )
      assert.lengthOf(server.requests, 1)
    }))

  it.effect("is good only when active is exactly true", () =>
    Effect.gen(function*() {
      yield* eachAnswer([{ active: false }, answerOf({ active: false })], "InvalidCredential")
      yield* eachAnswer(
        [{}, ...["true", 1, null, [true]].map((active) => answerOf({ active }))],
        "AuthorizationUnavailable"
      )
    }))

  it.effect("names the gateway in its audience, and its issuer if it names one", () =>
    Effect.gen(function*() {
      yield* eachChange([{}, { iss: undefined }, { aud: [audience, "x"] }], "accepted")
      yield* eachChange([
        { iss: "https://other.test" },
        { iss: null },
        { aud: undefined },
        { aud: "https://other.test" },
        { aud: [] },
        { aud: ["https://other.test"] },
        { aud: null }
      ], "InvalidCredential")
    }))

  it.effect("has exp, client_id, sub and the grant claim", () =>
    Effect.gen(function*() {
      yield* eachChange([{ iat: undefined }, { jti: undefined }, { nbf: epoch }], "accepted")
      yield* eachChange(
        ["exp", "sub", "client_id", "grant_id"].flatMap((name) =>
          [undefined, null, "", {}].map((value) => ({ [name]: value }))
        ),
        "InvalidCredential"
      )
      yield* eachChange(
        [{ exp: epoch - 5 }, { nbf: epoch + 6 }, { iat: epoch + 6 }, { scope: `a"b` }, { scope: ["a"] }],
        "InvalidCredential"
      )
    }))

  it.effect("has a confirmation that agrees with its token_type", () =>
    Effect.gen(function*() {
      const cnf = { jkt: "a".repeat(43) }
      const certificate = { "x5t#S256": "a".repeat(43) }
      yield* eachChange([
        { token_type: undefined },
        { token_type: "bearer" },
        { token_type: "DPoP", cnf },
        { token_type: undefined, cnf },
        { cnf: certificate },
        { token_type: "dpop", cnf: { ...cnf, ...certificate } }
      ], "accepted")
      yield* eachChange([
        { token_type: "DPoP" },
        { token_type: "Bearer", cnf },
        { token_type: "DPoP", cnf: certificate },
        { token_type: "mac" },
        { token_type: null },
        { cnf: {} },
        { cnf: { jwk: {} } },
        { cnf: null }
      ], "InvalidCredential")
    }))

  it.effect("is refused when the server says that it is not an access token", () =>
    Effect.gen(function*() {
      yield* eachChange([
        { token_use: "access_token" },
        ...["Bearer", "at+jwt", "DPoP", "identity-of-nobody"].map((typ) => ({ typ }))
      ], "accepted")
      yield* eachChange([
        ...["refresh_token", "id", null, ["access_token"]].map((token_use) => ({ token_use })),
        ...["Refresh", "refresh_token", "Offline", "ID", "id_token"].map((typ) => ({ typ })),
        { token_type: "refresh_token" }
      ], "InvalidCredential")
    }))

  it.effect("is refused without a request when it has other characters or is longer than 8 KiB", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene()
      for (const token of ["", "a b", "a&token=b", "ä", "a\nb", "=", "a=b", "x".repeat(8193)]) {
        assert.strictEqual(yield* judged(verify(token)), "InvalidCredential")
      }
      assert.lengthOf(server.requests, 0)
      assert.strictEqual(yield* judged(verify("x".repeat(8192))), "accepted")
    }))
})
