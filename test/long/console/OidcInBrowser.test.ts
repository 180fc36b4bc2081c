/** The sign-in at an issuer of another site works in a real browser, which withholds strict cookies where the issuer leads back. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Redacted } from "effect"
import { Browser } from "../../fixtures/console/Browser.ts"
import { makeOperatorIssuer } from "../../fixtures/console/OperatorIssuer.ts"
import { createDatabase, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, launch, urlOf } from "../../fixtures/processes/CommandLine.ts"

describe("The sign-in in a real browser", () => {
  it.live("continues from the own site, and opens the page that the operator asked for", () =>
    Effect.scoped(Effect.gen(function*() {
      const port = yield* freePort
      // Another site than the issuer, which is at 127.0.0.1.
      const url = `http://localhost:${port}`
      const { account, settings } = yield* makeOperatorIssuer(url)
      account.claims = { preferred_username: "olivia", roles: ["payments-operator"] }
      const env = {
        DATABASE_URL: urlOf(yield* createDatabase()),
        CONSOLE_URL: url,
        CONSOLE_OIDC_ISSUER: settings.issuer,
        CONSOLE_OIDC_CLIENT_ID: settings.clientId,
        CONSOLE_OIDC_CLIENT_SECRET: Redacted.value(settings.clientSecret),
        CONSOLE_OIDC_ROLE: settings.role
      }
      yield* launch(["console", "--port", String(port)], env, ({ stderr }) => stderr.includes("istening\""))
      const { page } = yield* (yield* Browser).open(`${url}/console/queues/held`)
      yield* Effect.promise(() => page.getByRole("link", { name: "Sign in" }).click())
      yield* Effect.promise(() => page.getByText("olivia").first().waitFor())
      assert.strictEqual(page.url(), `${url}/console/queues/held`)
      // A link of another site opens the page as well.
      yield* Effect.promise(() => page.goto(`${settings.issuer}/.well-known/openid-configuration`))
      yield* Effect.promise(() => page.evaluate((to) => location.assign(to), `${url}/console`))
      yield* Effect.promise(() => page.getByText("olivia").first().waitFor())
    })).pipe(Effect.provide([Browser.layer, Platform])))
})
