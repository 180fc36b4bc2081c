/**
 * The named code blocks of the documentation work. This file writes them into one folder, beside the source of the template, and imports
 * them from there.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, ConfigProvider, Context, Effect, Exit, Layer, Redacted, Schema } from "effect"
import type { Digest } from "effect/crypto"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { exportSPKI, generateKeyPair, type JWTPayload, SignJWT } from "jose"
import * as fs from "node:fs"
import * as path from "node:path"
import { afterAll } from "vitest"
import { bearer, InvalidCredential } from "../../../src/domain/Credential.ts"
import type { GrantIdentity } from "../../../src/domain/Grant.ts"
import type { Terms } from "../../../src/domain/Terms.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { MemoryLedger } from "../../../src/services/memory/MemoryLedger.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import type { ProviderAdapter } from "../../../src/submission/providers/ProviderAdapter.ts"
import * as ProviderContract from "../../../src/testing/ProviderContract.ts"
import { codeBlocks } from "../../fixtures/Markdown.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"

const pages = ["README.md", ...fs.globSync("docs/*.md")]
const blocks = pages.flatMap((page) => codeBlocks(page).map((block) => ({ ...block, page })))
const named = blocks.filter(({ isNamed }) => isNamed)

// Within the project, so that the blocks can import the package by its name.
const folder = fs.mkdtempSync(path.resolve(".guides-"))
fs.cpSync("template/src", path.join(folder, "src"), { recursive: true })
for (const { code, name } of named) fs.writeFileSync(path.join(folder, name), code)
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))

describe("The code in the documentation", () => {
  it("has a file name once", () => {
    const names = blocks.map(({ name }) => name)
    assert.deepStrictEqual(names.filter((name, at) => names.indexOf(name) !== at), [])
  })
})

/** What the tests call of `FirstBank.ts`. */
interface FirstBank {
  readonly at: (
    baseUrl: string,
    account: string,
    token: Redacted.Redacted<string>
  ) => Layer.Layer<ProviderAdapter, never, HttpClient.HttpClient>
  readonly layer: Layer.Layer<ProviderAdapter, unknown, HttpClient.HttpClient>
  readonly termsOf: (
    payment: { readonly amount: string; readonly currency: string; readonly creditor_iban: string }
  ) => Terms
}

describe("docs/providers.md, FirstBank.ts follows the contract:", async () => {
  const { at, layer, termsOf } = (await import(/* @vite-ignore */ path.join(folder, "FirstBank.ts"))) as FirstBank
  const named = ({ id, reference }: ProviderContract.AnswerSubject) => ({ payment_id: reference, client_reference: id })
  const sent = (amount: string, currency = "EUR", creditor_iban = "DE89370400440532013000") => ({
    payload: { amount, currency, creditor_iban },
    request: ({ id, sendBefore }: ProviderContract.Submitted) => ({
      path: "/payments",
      headers: { "idempotency-key": id, "valid-until": sendBefore.toISOString() },
      body: `{"amount":"${amount}","currency":"${currency}","creditor_iban":"${creditor_iban}"}`
    })
  })
  const cases = ProviderContract.cases({
    adapter: (baseUrl) => at(baseUrl, "4711", Redacted.make("a-token-for-tests")),
    operation: { type: "payment" },
    terms: termsOf,
    expects: [sent("12.50"), sent("1.15"), sent("12.50", "GBP"), sent("12.50", "EUR", "FR1420041010050500013M02606")],
    invalidPayloads: [{ amount: "12,50", currency: "EUR", creditor_iban: "DE89370400440532013000" }],
    answers: {
      submission: {
        succeeded: (subject) => ({ status: 201, body: { ...named(subject), status: "settled" } }),
        acknowledged: (subject) => ({ status: 202, body: { ...named(subject), status: "processing" } }),
        refused: {
          answer: ({ id }) => ({
            status: 422,
            body: { client_reference: id, code: "CLOSED", message: "Account closed (4711)." }
          }),
          code: "account_closed"
        },
        duplicate: ({ id }) => ({ status: 409, body: { client_reference: id, code: "duplicate" } }),
        unavailable: () => ({ status: 429, body: { code: "slow_down" } })
      },
      status: {
        pending: (subject) => ({ status: 200, body: { ...named(subject), status: "processing" } }),
        succeeded: (subject) => ({ status: 200, body: { ...named(subject), status: "settled" } }),
        failed: {
          answer: (subject) => ({
            status: 200,
            body: { ...named(subject), status: "returned", reason: "No such account." }
          }),
          code: "payment_returned"
        },
        notFound: ({ id }) => ({ status: 404, body: { client_reference: id, code: "unknown_payment" } })
      }
    }
  })
  for (const { name, run } of cases) it(name, () => Effect.runPromise(run))

  it.effect("a wrong address ends the start with the name of the setting", () =>
    Effect.gen(function*() {
      const env = { FIRST_BANK_URL: "foo", FIRST_BANK_ACCOUNT: "4711", FIRST_BANK_TOKEN: "token" }
      const settings = ConfigProvider.layer(ConfigProvider.fromEnv({ env }))
      const exit = yield* Effect.exit(Layer.build(layer.pipe(Layer.provide([settings, FetchHttpClient.layer]))))
      assert(Exit.isFailure(exit))
      assert.match(String(Cause.squash(exit.cause)), /FIRST_BANK_URL must be a URL/)
    }))
})

/** What the tests call of `TeamTokens.ts`. */
interface TeamTokens {
  readonly TeamVerifier: Layer.Layer<GrantVerifier, unknown, Digest.Digest>
  readonly registerConsent: (consent: unknown) => Effect.Effect<GrantIdentity, unknown, Grants>
}

describe("docs/verifiers.md, TeamTokens.ts:", () => {
  const claims = { client_id: "agent", sub: "alice-as-seen-by-the-agent", consent: "consent-1" }

  it.effect("verifies a token to the grant of its consent, and refuses malformed claims without a defect", () =>
    Effect.gen(function*() {
      const { TeamVerifier, registerConsent } = (yield* Effect.promise(() =>
        import(/* @vite-ignore */ path.join(folder, "TeamTokens.ts"))
      )) as TeamTokens
      const { privateKey, publicKey } = yield* Effect.promise(() => generateKeyPair("ES256", { extractable: true }))
      const TEAM_PUBLIC_KEY = yield* Effect.promise(() => exportSPKI(publicKey))
      const verifier = yield* Layer.build(TeamVerifier).pipe(
        Effect.map((context) => Context.get(context, GrantVerifier)),
        Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env: { TEAM_PUBLIC_KEY } })))
      )
      const verify = (payload: JWTPayload, audience = "https://pay.example") =>
        Effect.promise(() =>
          new SignJWT(payload).setProtectedHeader({ alg: "ES256" }).setIssuer("https://app.example")
            .setAudience(audience).setExpirationTime("1 minute").sign(privateKey)
        ).pipe(Effect.flatMap((token) => verifier.verify(bearer(Redacted.make(token)))))
      const consent = {
        grant: claims.consent,
        client_id: claims.client_id,
        subject: claims.sub,
        resource_owner: "alice",
        provider: "first-bank",
        granted_at: "2026-01-01T00:00:00Z",
        expires_at: "2030-01-01T00:00:00Z"
      }
      const { client_id, grant_id, subject } = yield* registerConsent(consent)
      assert.deepStrictEqual(yield* verify(claims), { client_id, grant_id, subject })
      for (const payload of [{ ...claims, consent: "" }, { ...claims, sub: "x".repeat(256) }, {}]) {
        assert.instanceOf(yield* Effect.flip(verify(payload)), InvalidCredential)
      }
      assert.instanceOf(yield* Effect.flip(verify(claims, "https://elsewhere.example")), InvalidCredential)
      assert.isTrue(Schema.isSchemaError(yield* Effect.flip(registerConsent({ ...consent, grant: "" }))))
    }).pipe(Effect.provide([Layer.provide(Grants.layerMemory, [MemoryLedger.layer, Platform]), Platform])))
})
