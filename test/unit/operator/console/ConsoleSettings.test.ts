/** Settings of the console that are unsafe or incomplete stop the start with one sentence. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Redacted } from "effect"
import { hasRole, operatorOf } from "../../../../src/operator/console/access/OidcAccess.ts"
import { readConsoleSettings } from "../../../../src/operator/console/ConsoleSettings.ts"

const read = (environment: Readonly<Record<string, string>>, host = "127.0.0.1", operator = "olivia") =>
  readConsoleSettings({ host, operator, version: "1.2.3" }).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(environment))
  )

const issuer = {
  CONSOLE_OIDC_ISSUER: "https://issuer.example",
  CONSOLE_OIDC_CLIENT_ID: "console",
  CONSOLE_OIDC_CLIENT_SECRET: "the secret of the client",
  CONSOLE_OIDC_ROLE: "operator",
  CONSOLE_URL: "https://console.example"
}

const without = (name: keyof typeof issuer) =>
  Object.fromEntries(Object.entries(issuer).filter(([other]) => other !== name))

describe("the settings of the console", () => {
  it.effect("are the one-time link on this machine, unless an issuer is named", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* read({}), { url: null, oidc: null, operator: "olivia", version: "1.2.3" })
      const { oidc, url } = yield* read({ ...issuer, CONSOLE_URL: "https://console.example/console/" })
      assert.strictEqual(url, "https://console.example")
      assert.deepInclude(oidc, { issuer: "https://issuer.example", role: "operator", roleClaim: "roles" })
      assert.strictEqual(Redacted.value(oidc!.clientSecret), "the secret of the client")
    }))

  const unsafe: ReadonlyArray<readonly [string, Readonly<Record<string, string>>, string]> = [
    ["other machines reach the listener, and there is no issuer", {}, "0.0.0.0"],
    ["other machines reach the listener by IPv6, and there is no issuer", {}, "::"],
    ["the name of the listener is not a loopback name", {}, "console.internal"],
    ["other machines reach the listener, and there is no URL", without("CONSOLE_URL"), "0.0.0.0"],
    [
      "other machines reach the listener, and the URL has no https",
      { ...issuer, CONSOLE_URL: "http://127.0.0.1" },
      "0.0.0.0"
    ],
    ["a proxy leads others to the one-time link", { CONSOLE_URL: "https://console.example" }, "127.0.0.1"],
    ["the URL has no https", { ...issuer, CONSOLE_URL: "http://console.example" }, "127.0.0.1"],
    ["the URL is none", { ...issuer, CONSOLE_URL: "console.example" }, "127.0.0.1"],
    ["the URL has another path", { ...issuer, CONSOLE_URL: "https://console.example/other" }, "127.0.0.1"],
    ["the URL has a password", { ...issuer, CONSOLE_URL: "https://a:secret@console.example" }, "127.0.0.1"],
    ["the issuer has no https", { ...issuer, CONSOLE_OIDC_ISSUER: "http://issuer.example" }, "127.0.0.1"],
    ["the issuer sends browsers nowhere", without("CONSOLE_URL"), "127.0.0.1"],
    ["the client has no id", without("CONSOLE_OIDC_CLIENT_ID"), "127.0.0.1"],
    ["the client has no secret", without("CONSOLE_OIDC_CLIENT_SECRET"), "127.0.0.1"],
    ["the secret is empty", { ...issuer, CONSOLE_OIDC_CLIENT_SECRET: " " }, "127.0.0.1"],
    ["no role is required", without("CONSOLE_OIDC_ROLE"), "127.0.0.1"]
  ]

  for (const [what, environment, host] of unsafe) {
    it.effect(`are refused if ${what}`, () =>
      Effect.gen(function*() {
        const { message } = yield* Effect.flip(read(environment, host))
        assert.match(message, /CONSOLE_(?:URL|OIDC_[A-Z_]+)/)
        assert.notMatch(message, /\n|secret of the client|a:secret/)
      }))
  }

  it.effect("are accepted for other machines with an issuer and https", () => Effect.asVoid(read(issuer, "0.0.0.0")))

  it.effect("are refused with a name that the records cannot hold", () =>
    Effect.gen(function*() {
      for (const name of ["", " ", "x".repeat(256)]) {
        assert.include((yield* Effect.flip(read({}, "127.0.0.1", name))).message, "OPERATOR")
      }
    }))
})

describe("the claims of an operator", () => {
  it("name the operator by the user name, or else the verified e-mail address, or else the subject", () => {
    const all = { preferred_username: "olivia", email: "o@example.com", email_verified: true, sub: "123" }
    assert.strictEqual(operatorOf(all), "olivia")
    assert.strictEqual(operatorOf({ ...all, preferred_username: " " }), "o@example.com")
    assert.strictEqual(operatorOf({ ...all, preferred_username: 7, email_verified: false }), "123")
    assert.strictEqual(operatorOf({ email: "o@example.com", sub: "123" }), "123")
  })

  it("give a name of one line that the records can hold", () => {
    assert.strictEqual(operatorOf({ preferred_username: "a\nb\u0000c\u202Ed", sub: "1" }), "a b c d")
    assert.lengthOf(operatorOf({ sub: "x".repeat(300) }), 255)
    assert.isTrue(operatorOf({ sub: `${"x".repeat(254)}\u{1F600}` }).isWellFormed())
    for (const hidden of ["\0", "\u200B\u202E", "\u2800", "\u3164"]) {
      assert.strictEqual(operatorOf({ preferred_username: hidden, sub: "1" }), "1")
      assert.strictEqual(operatorOf({ sub: hidden }), "unknown")
    }
  })

  it("have the role only in the claim that is named, as a whole", () => {
    assert.isTrue(hasRole({ roles: ["a", "b"] }, "roles", "b"))
    assert.isTrue(hasRole({ roles: "b" }, "roles", "b"))
    assert.isTrue(hasRole({ "https://x.example/roles": ["b"] }, "https://x.example/roles", "b"))
    assert.isTrue(hasRole({ realm_access: { roles: ["b"] } }, "realm_access.roles", "b"))
    assert.isFalse(hasRole({ roles: "a b" }, "roles", "b"))
    assert.isFalse(hasRole({ roles: ["bb"], groups: ["b"] }, "roles", "b"))
    assert.isFalse(hasRole({ roles: { b: true } }, "roles", "b"))
    assert.isFalse(hasRole({}, "constructor.name", "Object"))
    assert.isFalse(hasRole({ roles: [["b"]] }, "roles", "b"))
  })
})
