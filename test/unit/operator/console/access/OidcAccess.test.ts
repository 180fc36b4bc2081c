/** Operators sign in through the issuer of the team, with its role, in the browser that began; and in no other way. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, type Scope } from "effect"
import { TestClock } from "effect/testing"
import { makeLoginAttempts } from "../../../../../src/operator/console/access/OidcIssuer.ts"
import type { ConsoleSettings } from "../../../../../src/operator/console/ConsoleSettings.ts"
import { ConsoleScene } from "../../../../fixtures/console/ConsoleScene.ts"
import { ConsoleServer, consoleServer } from "../../../../fixtures/console/ConsoleServer.ts"
import {
  begin,
  comeBack,
  finish,
  nextOf,
  pathOf,
  signInAtIssuer as signIn
} from "../../../../fixtures/console/IssuerSignIn.ts"
import { makeOperatorIssuer, type OperatorIssuer } from "../../../../fixtures/console/OperatorIssuer.ts"
import { type Answer, Visitor } from "../../../../fixtures/console/Visitor.ts"
import { Observer } from "../../../../fixtures/http/HttpObserver.ts"

const host = "console.example"
const url = `https://${host}`
const olivia = { preferred_username: "olivia", roles: ["reader", "payments-operator"] }

type Services = ConsoleServer | ConsoleScene | Observer | Scope.Scope

/** A console behind a proxy with https, and its issuer. */
const test = (
  rule: string,
  body: (issuer: OperatorIssuer) => Effect.Effect<void, never, Services>,
  change: (settings: ConsoleSettings) => ConsoleSettings = (settings) => settings
) =>
  it.live(rule, () =>
    Effect.scoped(Effect.gen(function*() {
      const issuer = yield* makeOperatorIssuer(url)
      issuer.account.claims = olivia
      const settings = change({ url, oidc: issuer.settings, operator: "unused", version: "0.0.0-test" })
      yield* Effect.provide(
        body(issuer),
        Layer.provideMerge(consoleServer(ConsoleScene.services, { settings }), ConsoleScene.layer)
      )
    })))

const visitor = Effect.map(ConsoleServer, ({ port }) => new Visitor(port, host, "https"))

const sessionOf = (browser: Visitor) => browser.send("/console/api/session")

/** No session began. */
const assertRefused = Effect.fnUntraced(function*(browser: Visitor, answer: Answer, status = 403) {
  assert.strictEqual(answer.status, status, answer.text)
  assert.strictEqual((yield* sessionOf(browser)).status, 401)
  assert.deepStrictEqual([...browser.cookies.keys()].filter((name) => name.endsWith("_session")), [])
})

describe("the sign-in at the issuer", () => {
  test("begins a session with the name of the operator, and goes on to the page that the operator asked for", () =>
    Effect.gen(function*() {
      const browser = yield* visitor
      const path = "/console/operations/019aa4f0-5c00-7b1e-8d2f-000000000001"
      const invitation = yield* browser.send(path)
      assert.include(invitation.text, `href="/console/oidc/start?next=${encodeURIComponent(path)}"`)
      const answer = yield* finish(browser, yield* begin(browser, path))
      assert.strictEqual(nextOf(answer), path)
      assert.deepInclude(JSON.parse((yield* sessionOf(browser)).text), { operator: "olivia" })
    }))

  test("prints no link, and serves none", () =>
    Effect.gen(function*() {
      const { printed } = yield* ConsoleServer
      const browser = yield* visitor
      yield* browser.send("/console")
      assert.deepStrictEqual(printed, [])
      assert.isNull(nextOf(yield* browser.send("/console/login?token=x")))
    }))

  test("sets cookies for https alone, for this host alone, without scripts, and for this site alone", () =>
    Effect.gen(function*() {
      const browser = yield* visitor
      const start = yield* browser.send("/console/oidc/start")
      const answer = yield* signIn(browser)
      const lines = [...start.headers["set-cookie"]!, ...answer.headers["set-cookie"]!]
      assert.lengthOf(lines, 3)
      for (const line of lines) {
        const [pair, ...attributes] = line.split("; ")
        assert.match(pair!, /^__Host-gateway_console_(?:login|session)=/)
        assert.includeMembers(attributes, ["HttpOnly", "Secure", "SameSite=Strict", "Path=/"])
        assert.notMatch(line, /Domain/i)
      }
      assert.deepStrictEqual([...browser.cookies.keys()], ["__Host-gateway_console_session"])
    }))

  test("is refused without the role", (issuer) =>
    Effect.gen(function*() {
      for (
        const roles of [undefined, [], ["reader"], "reader", ["payments-operator2"], { "payments-operator": true }]
      ) {
        issuer.account.claims = { preferred_username: "mallory", ...roles === undefined ? {} : { roles } }
        const browser = yield* visitor
        const answer = yield* signIn(browser)
        assert.include(answer.text, "lacks the role")
        yield* assertRefused(browser, answer)
      }
    }))

  test("is refused with another state, without one, and with two", () =>
    Effect.gen(function*() {
      for (const change of ["replace", "delete", "append"] as const) {
        const browser = yield* visitor
        const answer = new URL(yield* begin(browser), url)
        const state = answer.searchParams.get("state")!
        if (change === "delete") answer.searchParams.delete("state")
        else if (change === "append") answer.searchParams.append("state", state)
        else answer.searchParams.set("state", state.split("").toReversed().join(""))
        const refused = yield* finish(browser, pathOf(answer))
        if (change !== "append") assert.include(refused.text, "did not begin in this browser")
        yield* assertRefused(browser, refused)
      }
    }))

  test("cannot be finished by another browser: neither without a beginning nor with one of its own", () =>
    Effect.gen(function*() {
      const attacker = yield* visitor
      const victim = yield* visitor
      const answer = yield* begin(attacker)
      yield* assertRefused(victim, yield* finish(victim, answer))
      const own = new URL(yield* begin(victim), url)
      // The code of the attacker with the state of the victim.
      own.searchParams.set("code", new URL(answer, url).searchParams.get("code")!)
      yield* assertRefused(victim, yield* finish(victim, pathOf(own)))
    }))

  test("has one answer", () =>
    Effect.gen(function*() {
      const browser = yield* visitor
      const answer = yield* begin(browser)
      const login = new Map(browser.cookies)
      yield* finish(browser, answer)
      const again = yield* visitor
      yield* assertRefused(again, yield* finish(again, answer))
      for (const [name, value] of login) again.cookies.set(name, value)
      // Even with the cookie of the attempt: the issuer redeems a code once.
      yield* assertRefused(again, yield* finish(again, answer))
    }))

  it.effect("takes less than ten minutes", () =>
    Effect.gen(function*() {
      const attempts = yield* makeLoginAttempts
      const attempt = attempts.begin()
      yield* TestClock.adjust(10 * 60_000 - 1)
      assert.deepStrictEqual(attempts.find(attempt.cookie), attempt)
      yield* TestClock.adjust(1)
      assert.isNull(attempts.find(attempt.cookie))
    }))

  const now = () => Math.floor(Date.now() / 1000)

  for (
    const [what, change] of [
      ["another nonce", (claims: object) => ({ ...claims, nonce: "another" })],
      ["no nonce", (claims: object) => ({ ...claims, nonce: undefined })],
      ["a time of expiry that has passed", (claims: object) => ({ ...claims, exp: now() - 60, iat: now() - 120 })],
      ["another audience", (claims: object) => ({ ...claims, aud: "other" })],
      ["another issuer", (claims: object) => ({ ...claims, iss: "https://other.example" })]
    ] as const
  ) {
    test(`is refused if the ID token has ${what}`, (issuer) =>
      Effect.gen(function*() {
        issuer.idToken.change = change
        const browser = yield* visitor
        yield* assertRefused(browser, yield* signIn(browser))
      }))
  }

  test("is refused if another key signed the ID token", (issuer) =>
    Effect.gen(function*() {
      issuer.idToken.isForged = true
      const browser = yield* visitor
      yield* assertRefused(browser, yield* signIn(browser))
    }))

  test("says that the issuer does not answer, at its begin and at its end, and works again after that", (issuer) =>
    Effect.gen(function*() {
      issuer.fail.isFailing = true
      const browser = yield* visitor
      assert.strictEqual((yield* browser.send("/console/oidc/start")).status, 503)
      issuer.fail.isFailing = false
      const answer = yield* begin(browser)
      issuer.fail.isFailing = true
      yield* assertRefused(browser, yield* finish(browser, answer), 503)
      issuer.fail.isFailing = false
      yield* signIn(browser)
      assert.strictEqual((yield* sessionOf(browser)).status, 200)
    }))

  test("shows the refusal of the issuer as its own text", () =>
    Effect.gen(function*() {
      const browser = yield* visitor
      const answer = new URL(yield* begin(browser), url)
      answer.searchParams.delete("code")
      answer.searchParams.set("error", "access_denied")
      answer.searchParams.set("error_description", "<script>marker")
      const page = yield* comeBack(browser, pathOf(answer))
      const refused = yield* browser.send(nextOf(page)!)
      yield* assertRefused(browser, refused)
      assert.notInclude(page.text + refused.text, "marker")
    }))

  test("goes on to pages of the console alone", () =>
    Effect.gen(function*() {
      for (
        const next of [
          "https://evil.example",
          "//evil.example",
          "/console//../..//evil.example?x",
          "/metrics",
          "/console/../metrics",
          "/console/a/..",
          "/consolex"
        ]
      ) {
        const browser = yield* visitor
        assert.strictEqual(nextOf(yield* finish(browser, yield* begin(browser, next))), "/console", next)
      }
    }))

  test("answers under the name of CONSOLE_URL, and takes changes from its origin alone", () =>
    Effect.gen(function*() {
      const { port } = yield* ConsoleServer
      const browser = yield* visitor
      yield* signIn(browser)
      yield* browser.readToken
      const leave = { method: "DELETE" }
      for (const origin of [`http://${host}`, `http://127.0.0.1:${port}`, `${url}:443`, "null"]) {
        const refused = yield* browser.send("/console/api/session", { ...leave, headers: { origin } })
        assert.strictEqual(refused.status, 403, origin)
      }
      // A proxy may send the name of this machine.
      const through = yield* browser.send("/console/api/session", { headers: { host: `127.0.0.1:${port}` } })
      assert.strictEqual(through.status, 200)
      assert.strictEqual(
        (yield* browser.send("/console/api/session", { headers: { host: "other.example" } })).status,
        403
      )
      assert.strictEqual((yield* browser.send("/console/api/session", leave)).status, 204)
      assert.strictEqual((yield* sessionOf(browser)).status, 401)
    }))

  test("leaves no code, state, token, secret or cookie in any log line or span", () =>
    Effect.gen(function*() {
      const { lines, spans } = yield* Observer
      const browser = yield* visitor
      const answer = yield* begin(browser)
      const secrets = [...new URL(answer, url).searchParams].filter(([name]) => name !== "iss").map(([, value]) =>
        value
      )
      secrets.push(...browser.cookies.values())
      yield* finish(browser, answer)
      secrets.push(...browser.cookies.values())
      const other = yield* visitor
      yield* finish(other, answer)
      const told = JSON.stringify([lines, spans.map(({ attributes, name }) => [name, ...attributes])])
      assert.isAtLeast(secrets.length, 4)
      for (const secret of secrets) assert.notInclude(told, secret)
      assert.include(told, "Operator signed in")
    }))
})
