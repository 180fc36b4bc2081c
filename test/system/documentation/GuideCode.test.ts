/**
 * The tests in the documentation pass. This file writes the named code blocks of all pages into one folder, beside the source
 * of the template, and imports those that are tests (`*.test.ts`), which registers them here.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Context, Duration, Effect, Layer, Redacted, Schema } from "effect"
import type { Digest } from "effect/crypto"
import { HttpServer } from "effect/http"
import { exportSPKI, generateKeyPair, type JWTPayload, SignJWT } from "jose"
import * as fs from "node:fs"
import { createServer } from "node:http"
import * as path from "node:path"
import { afterAll } from "vitest"
import { bearer, InvalidCredential } from "../../../src/domain/Credential.ts"
import { type GrantIdentity, operationsRead, ProviderName, Scope } from "../../../src/domain/Grant.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { MemoryLedger } from "../../../src/services/memory/MemoryLedger.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { bytesOf, contractBank } from "../../../src/testing/ContractBank.ts"
import { fetchServed } from "../../fixtures/http/fetchServed.ts"
import { issue } from "../../fixtures/ledger/Ledger.ts"
import { codeBlocks } from "../../fixtures/Markdown.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { urlOf } from "../../fixtures/processes/CommandLine.ts"

const pages = fs.globSync("docs/*.md")
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

  it("has tests", () => assert.isAtLeast(named.filter(({ name }) => name.endsWith(".test.ts")).length, 2))
})

for (const { name, page } of named.filter(({ name }) => name.endsWith(".test.ts"))) {
  describe(`${page}, ${name}:`, async () => {
    await import(/* @vite-ignore */ path.join(folder, name))
  })
}

/** A bank that settles each payment at once, as `FirstBank.ts` describes it. */
const settlingBank = contractBank({
  onRequest: (socket, { headers }) =>
    void socket.end(
      bytesOf({
        status: 201,
        body: { payment_id: "p-1", client_reference: headers["idempotency-key"] ?? "", status: "settled" }
      })
    )
}, () => undefined)

/** The application of `ByHand.ts` on a database of its own, and a token for its endpoints. */
const applicationByHand = Effect.gen(function*() {
  const { Application } = (yield* Effect.promise(() => import(/* @vite-ignore */ path.join(folder, "ByHand.ts")))) as {
    readonly Application: Layer.Layer<never, unknown, HttpServer.HttpServer>
  }
  const database = yield* createDatabase()
  const bank = yield* settlingBank
  const env = { DATABASE_URL: urlOf(database), FIRST_BANK_URL: bank.baseUrl, FIRST_BANK_TOKEN: "token" }
  const services = yield* Layer.build(
    Layer.provideMerge(Application, NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1" })).pipe(
      Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env })))
    )
  )
  const { access_token } = yield* issue({
    provider: ProviderName.make("first-bank"),
    scopes: [operationsRead, Scope.make("payments:write")],
    expires_in: Duration.hours(1)
  }).pipe(
    Effect.provide(Layer.fresh(Grants.layer.pipe(Layer.provide([layerFor(database), Platform]))))
  )
  const url = yield* Effect.provideContext(HttpServer.HttpServer, services).pipe(
    Effect.map(({ address }) => HttpServer.formatAddress(address))
  )
  return { bank, token: Redacted.value(access_token), url }
})

describe("docs/composition.md, ByHand.ts:", () => {
  it.live("serves both APIs and submits, on PostgreSQL", () =>
    Effect.gen(function*() {
      const { bank, token, url } = yield* applicationByHand
      const ask = (target: string, init: RequestInit = {}) =>
        Effect.promise(async () => {
          const headers = {
            authorization: `Bearer ${token}`,
            "content-type": "application/json",
            "idempotency-key": "rent-of-may"
          }
          const response = await fetchServed(url + target, { ...init, headers })
          return await response.json() as { readonly id: string; readonly state: string }
        })
      const payment = { amount: "750.00", currency: "EUR", creditor_iban: "DE89370400440532013000" }
      const { id } = yield* ask("/v1/payments", { method: "POST", body: JSON.stringify(payment) })
      assert.isString(id)
      yield* Effect.repeat(ask(`/v1/operations/${id}`), { while: ({ state }) => state !== "succeeded" })
      const sent = bank.seen().requests.filter(({ method }) => method === "POST")
      assert.deepStrictEqual(sent.map(({ headers }) => headers["idempotency-key"]), [id])
      assert.strictEqual((yield* ask("/v1/payments", { method: "POST", body: JSON.stringify(payment) })).id, id)
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
