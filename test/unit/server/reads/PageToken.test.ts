/** A page token belongs to all filters of its list, and shows none of them. The tests seal and open tokens. */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Layer, Schema } from "effect"
import { IdempotencyKey } from "../../../../src/domain/Idempotency.ts"
import { OperationId, OperationType } from "../../../../src/domain/Operation.ts"
import { openPageToken, sealPageToken } from "../../../../src/server/reads/PageToken.ts"
import { TokenCipher } from "../../../../src/services/TokenCipher.ts"
import { everything } from "../../../fixtures/ledger/Ledger.ts"

const cursor = {
  created_at: DateTime.makeUnsafe(1_769_860_800_000),
  id: OperationId.make("019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f")
}

const lists = [
  everything,
  { ...everything, key: IdempotencyKey.make("rent-of-may") },
  { ...everything, key: IdempotencyKey.make("rent-of-june") },
  { ...everything, type: OperationType.make("payment") },
  { ...everything, states: ["failed"] as const },
  { ...everything, states: ["failed", "cancelled"] as const },
  { ...everything, created_after: cursor.created_at },
  { ...everything, created_before: cursor.created_at }
]

layer(Layer.provide(TokenCipher.layerMemory, NodeCrypto.layer))("A page token", (it) => {
  it.effect("belongs to the filters of its list, and to no others", () =>
    Effect.gen(function*() {
      const cipher = yield* TokenCipher
      for (const list of lists) {
        const token = yield* sealPageToken(cipher, cursor, list)
        for (const other of lists) {
          assert.deepStrictEqual(yield* openPageToken(cipher, token, other), other === list ? cursor : null)
        }
      }
    }))

  it.effect("permits states in any order", () =>
    Effect.gen(function*() {
      const cipher = yield* TokenCipher
      const token = yield* sealPageToken(cipher, cursor, { ...everything, states: ["failed", "cancelled"] })
      assert.deepStrictEqual(
        yield* openPageToken(cipher, token, { ...everything, states: ["cancelled", "failed"] }),
        cursor
      )
    }))

  it.effect.prop("that was not sealed is none, with any text, and so is one with any bit changed", [
    Schema.String,
    Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 10_000 }))
  ], ([text, n]) =>
    Effect.gen(function*() {
      const cipher = yield* TokenCipher
      const bytes = Buffer.from(yield* sealPageToken(cipher, cursor, everything), "base64url")
      bytes[(n >> 3) % bytes.length]! ^= 1 << (n & 7)
      for (const forged of [text, bytes.toString("base64url")]) {
        assert.isNull(yield* openPageToken(cipher, forged, everything))
      }
    }))

  it.effect("shows neither its operation nor its filters", () =>
    Effect.gen(function*() {
      const token = yield* sealPageToken(yield* TokenCipher, cursor, {
        ...everything,
        key: IdempotencyKey.make("rent-of-may")
      })
      const text = Buffer.from(token, "base64url").toString("latin1")
      for (const part of ["rent", cursor.id, "1769860800000"]) assert.notInclude(text, part)
    }))
})
