import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import type { ClientAuthentication } from "../../src/oauth/ClientAuthentication.ts"
import { introspectionFault, type IntrospectionSettings, makeIntrospection } from "../../src/oauth/Introspection.ts"
import { issuerSettings } from "../../src/oauth/Issuer.ts"
import { type FakeServer, layerOf, makeFakeServer } from "./FakeServer.ts"
import { audience, type Changes, claimsOf, epoch, issuer } from "./Issuing.ts"

const client: ClientAuthentication = {
  method: "client_secret_basic",
  clientId: "gateway",
  secret: Redacted.make("hush")
}

const settings: IntrospectionSettings = {
  ...issuerSettings({ issuer, audience }),
  endpoint: `${issuer}/introspect`,
  client,
  timeout: Duration.seconds(3),
  answerTimeToLive: Duration.zero
}

const path = "/introspect"

/** What the server says of a good token. */
const answerOf = (changes: Changes = {}) => ({ active: true, token_type: "Bearer", ...claimsOf(epoch, changes) })

const makeScene = Effect.fnUntraced(function*(changes: Partial<IntrospectionSettings> = {}) {
  yield* TestClock.setTime(epoch * 1000)
  const server = makeFakeServer()
  server.serve(path, answerOf())
  return { server, verify: yield* makeVerifier(server, changes) }
})

const makeVerifier = (server: FakeServer, changes: Partial<IntrospectionSettings>) =>
  Effect.map(
    Effect.provide(makeIntrospection({ ...settings, ...changes }), layerOf(server)),
    (verify) => (token: string) => verify(Redacted.make(token))
  )

const judged = (effect: Effect.Effect<unknown, { readonly _tag: string }>) =>
  Effect.match(effect, { onSuccess: () => "accepted", onFailure: ({ _tag }) => _tag })

const eachAnswer = (answers: ReadonlyArray<unknown>, verdict: string) =>
  Effect.forEach(answers, (answer) =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene()
      server.serve(path, () => answer instanceof Response ? answer.clone() : answer)
      assert.strictEqual(yield* judged(verify("t")), verdict, JSON.stringify(answer))
    }))

const eachChange = (changes: ReadonlyArray<Changes>, verdict: string) => eachAnswer(changes.map(answerOf), verdict)

describe("A token that is introspected", () => {
  it.effect("says who asks, under which grant, and with which scopes", () =>
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

  it.effect("is asked for by POST, in a form, and as JSON", () =>
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

  it.effect("is asked for where the metadata says, which is read once", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene({ endpoint: null })
      yield* verify("t")
      yield* verify("t")
      assert.strictEqual(server.asked("/.well-known/oauth-authorization-server"), 1)
      assert.strictEqual(server.asked(path), 2)
      yield* TestClock.setTime((epoch + 200) * 1000)
      server.serve("/.well-known/oauth-authorization-server", { issuer, introspection_endpoint: `${issuer}/moved` })
      server.serve(path, () => new Response("", { status: 404 }))
      server.serve("/moved", answerOf())
      assert.strictEqual(yield* judged(verify("t")), "AuthorizationUnavailable")
      assert.strictEqual(yield* judged(verify("t")), "accepted")
    }))

  it.effect("cannot be asked for where the metadata names no endpoint", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene({ endpoint: null })
      server.serve("/.well-known/oauth-authorization-server", { issuer })
      assert.strictEqual(yield* judged(verify("t")), "AuthorizationUnavailable")
    }))

  it.effect("is good only when active is true, and nothing that looks like it", () =>
    Effect.gen(function*() {
      yield* eachAnswer([{ active: false }, answerOf({ active: false })], "InvalidCredential")
      yield* eachAnswer(
        [
          {},
          answerOf({ active: "true" }),
          answerOf({ active: 1 }),
          answerOf({ active: null }),
          answerOf({
            active: [true]
          })
        ],
        "AuthorizationUnavailable"
      )
    }))

  it.effect("is of the issuer when one is named, and meant for the gateway", () =>
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

  it.effect("says when it expires, who asks and under which grant", () =>
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

  it.effect("is bound as its type says", () =>
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

  it.effect("is not asked for when it cannot be one: of other characters, or longer than 8 KiB", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene()
      for (const token of ["", "a b", "a&token=b", "ä", "a\nb", "=", "a=b", "x".repeat(8193)]) {
        assert.strictEqual(yield* judged(verify(token)), "InvalidCredential")
      }
      assert.lengthOf(server.requests, 0)
      assert.strictEqual(yield* judged(verify("x".repeat(8192))), "accepted")
    }))
})

describe("An authorization server that is asked of tokens", () => {
  it.effect("is unavailable when it gives no answer that can be understood, and that is no fault of the token", () =>
    Effect.gen(function*() {
      const json = { "content-type": "application/json" }
      const good = JSON.stringify(answerOf())
      yield* eachAnswer([
        new Response(good, { status: 201, headers: json }),
        new Response(good, { status: 400, headers: json }),
        new Response(good, { status: 401, headers: json }),
        new Response(good, { status: 403, headers: json }),
        new Response(good, { status: 302, headers: { ...json, location: "https://other.test" } }),
        new Response(good, { status: 500, headers: json }),
        new Response(good, { headers: { "content-type": "text/plain" } }),
        new Response(good, { headers: { "content-type": "application/token-introspection+jwt" } }),
        new Response(good.slice(0, -1), { headers: json }),
        new Response("null", { headers: json }),
        new Response("[]", { headers: json }),
        new Response("", { headers: json }),
        new Response(Buffer.from(good.replace("token-1", "token-\xff"), "latin1"), { headers: json }),
        answerOf({ padding: "x".repeat(64 * 1024) })
      ], "AuthorizationUnavailable")
      yield* eachAnswer([answerOf({ padding: "x".repeat(60 * 1024) })], "accepted")
    }))

  it.effect("has three seconds, finding the endpoint included", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene({ endpoint: null })
      server.delay = "1800 millis"
      const fiber = yield* Effect.forkChild(judged(verify("t")))
      yield* TestClock.adjust("2990 millis")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("10 millis")
      assert.strictEqual(yield* Fiber.join(fiber), "AuthorizationUnavailable")
      assert.strictEqual(server.aborted, 1)
    }))

  it.effect("is left alone after five failures in a row, for a second at first; its refusals are none", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene()
      server.serve(path, { active: false })
      for (let index = 0; index < 10; index++) yield* judged(verify("t"))
      assert.strictEqual(server.asked(path), 10)
      server.isDown = true
      for (let index = 0; index < 10; index++) {
        assert.strictEqual(yield* judged(verify("t")), "AuthorizationUnavailable")
      }
      assert.strictEqual(server.asked(path), 15)
      server.isDown = false
      server.serve(path, answerOf())
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* judged(verify("t")), "accepted")
    }))

  it.effect("is asked each time by default, also by those who ask at once", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene()
      yield* verify("t")
      server.serve(path, { active: false })
      assert.strictEqual(yield* judged(verify("t")), "InvalidCredential")
      yield* Effect.all(Array.from({ length: 5 }, () => judged(verify("t"))), { concurrency: "unbounded" })
      assert.strictEqual(server.asked(path), 7)
    }))

  it.effect("is asked again after the time that is configured, and never beyond the expiry of the token", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene({ answerTimeToLive: Duration.seconds(10) })
      yield* verify("t")
      yield* TestClock.adjust("9999 millis")
      yield* verify("t")
      assert.strictEqual(server.asked(path), 1)
      server.serve(path, answerOf({ exp: epoch + 12 }))
      yield* TestClock.adjust("1 millis")
      yield* verify("t")
      assert.strictEqual(server.asked(path), 2)
      yield* TestClock.adjust("2 seconds")
      yield* verify("t")
      assert.strictEqual(server.asked(path), 3)
      server.serve(path, { active: false })
      assert.strictEqual(yield* judged(verify("other")), "InvalidCredential")
      assert.strictEqual(yield* judged(verify("other")), "InvalidCredential")
      assert.strictEqual(server.asked(path), 5)
    }))

  it.effect("learns the token, and no failure does", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeScene()
      server.serve(path, () => new Response("SECRET-token", { status: 500 }))
      const failures = [yield* Effect.flip(verify("SECRET-token"))]
      server.isDown = true
      failures.push(yield* Effect.flip(verify("SECRET-token")))
      for (const failure of failures) {
        const cause = failure._tag === "AuthorizationUnavailable" ? failure.cause as Error : null
        const shown = [failure, failure.stack, cause, cause?.stack, cause?.cause]
        for (const text of shown) assert.notMatch(`${String(text)} ${JSON.stringify(text)}`, /SECRET|hush/)
        assert.match(cause?.message ?? "", /^https:\/\/as\.test: (?:status 500|the request failed)/)
      }
    }))
})

describe("The settings of introspection", () => {
  const faultOf = (changes: Partial<IntrospectionSettings>) => introspectionFault({ ...settings, ...changes }) ?? ""

  it("are held to the rules for issuers, endpoints and times", () => {
    assert.isNull(introspectionFault(settings))
    assert.isNull(introspectionFault({ ...settings, endpoint: null }))
    assert.include(faultOf({ issuer: "http://as.test" }), "must be https")
    assert.include(faultOf({ endpoint: "http://as.test/introspect" }), "introspection endpoint")
    assert.include(faultOf({ timeout: Duration.zero }), "between 100 milliseconds and 30 seconds")
    assert.include(faultOf({ timeout: Duration.infinity }), "between 100 milliseconds and 30 seconds")
    assert.include(faultOf({ answerTimeToLive: Duration.seconds(61) }), "60 seconds at most")
  })
})
