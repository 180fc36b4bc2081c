/**
 * The id of an external grant depends only on issuer, client and grant. The tests compare it with a fixed value and try
 * pairs of names by property.
 */
import { assert, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { createHash } from "node:crypto"
import { InvalidCredential } from "../../../src/domain/Credential.ts"
import {
  ClientId,
  externalGrantId,
  ExternalId,
  externalIdentity,
  GrantId,
  Issuer,
  PairwiseSubject
} from "../../../src/domain/Grant.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"

const idOf = (issuer: string, client: string, grant: string) =>
  externalGrantId(Issuer.make(issuer), ClientId.make(client), ExternalId.make(grant))

const name = Schema.String.check(Schema.isPattern(/^[\x21-\x7e]{1,255}$/))

it.layer(Platform)("the id of a grant from an authorization server", (it) => {
  it.effect("is a UUIDv8 of RFC 9562, and a valid grant id", () =>
    Effect.gen(function*() {
      for (let n = 0; n < 200; n++) {
        const id = yield* idOf("https://as.example", "client", `grant-${n}`)
        assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
        assert.isTrue(Schema.is(GrantId)(id))
      }
    }))

  it.effect("never changes between releases, because stored grants are found by it", () =>
    Effect.gen(function*() {
      const id = yield* idOf("https://as.example", "client", "grant")
      assert.strictEqual(id, "65cb3fcf-5cb0-884c-8e9d-e3852e57dca5")
      const digest = createHash("sha256").update("18:https://as.example6:client5:grant").digest("hex")
      const unmarked = (hex: string) => hex.replace(/^(.{12}).(.{3}).(.{15}).*/, "$1$2$3")
      assert.strictEqual(unmarked(id.replaceAll("-", "")), unmarked(digest))
    }))

  it.effect.prop(
    "differs when issuer, client or grant differ, even if the joined names are equal",
    [name, name, name, name, name, name],
    ([a, b, c, x, y, z]) =>
      Effect.gen(function*() {
        const text = a + b + c
        const shifted = [text.slice(0, 1), text.slice(1, -1), text.slice(-1)] as const
        for (const [i, j, k] of [[x, y, z], [b, a, c], [a, c, b], shifted] as const) {
          if (i.length > 255 || j.length > 255 || k.length > 255 || (i === a && j === b && k === c)) continue
          assert.notStrictEqual(yield* idOf(a, b, c), yield* idOf(i, j, k))
        }
      })
  )

  it.effect("is found from claims of any form: a malformed claim refuses the credential, and is no defect", () =>
    Effect.gen(function*() {
      const claims = { issuer: "https://as.example", client_id: "client", subject: "alice", grant: "grant" }
      assert.deepStrictEqual(yield* externalIdentity(claims), {
        grant_id: yield* idOf("https://as.example", "client", "grant"),
        client_id: ClientId.make("client"),
        subject: PairwiseSubject.make("alice")
      })
      for (const name of Object.keys(claims)) {
        for (const value of [undefined, null, "", 7, ["a"], "\u00e9", "two words", "x".repeat(256)]) {
          const refused = yield* Effect.flip(externalIdentity({ ...claims, [name]: value }))
          assert.instanceOf(refused, InvalidCredential, `${name}: ${String(value)}`)
        }
      }
    }))

  it.effect("has the limits of the credential, and limits that cannot be enforced refuse it without quoting it", () =>
    Effect.gen(function*() {
      const names = { issuer: "https://as.example", client_id: "client", subject: "alice", grant: "grant" }
      const limited = { type: "financial_operations", budgets: [{ currency: "EUR", amount: "500.00", per: "day" }] }
      const limitsOf = (authorization_details: unknown) =>
        Effect.map(
          externalIdentity({ ...names, authorization_details }),
          (identity) => identity.authorization_details
        )
      assert.deepStrictEqual<unknown>(yield* limitsOf([limited, { type: "of_another_resource", any: 1 }]), [limited])
      for (const none of [undefined, [], [{ type: "of_another_resource" }]]) {
        assert.isUndefined(yield* limitsOf(none))
      }
      const invalid = [
        null,
        "none",
        [{ budgets: [] }],
        [{ ...limited, approval: "secret" }],
        [{ ...limited, payees: [] }],
        [limited, { ...limited, budgets: [{ currency: "EUR", amount: "0", per: "day" }] }],
        [{ ...limited, budgets: [{ currency: "EUR", amount: "secret", per: "day" }] }]
      ]
      for (const value of invalid) {
        const refused = yield* Effect.flip(limitsOf(value))
        assert.instanceOf(refused, InvalidCredential)
        assert.match(refused.reason ?? "", /^authorization_details/)
        assert.notInclude(refused.reason, "secret")
      }
    }))
})
