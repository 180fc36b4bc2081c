/**
 * A page token belongs to all filters of its list, and shows none of them. The tests seal and open tokens.
 */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Layer } from "effect"
import { ClientId, PairwiseSubject } from "../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import { OperationId, OperationType } from "../../../src/domain/Operation.ts"
import { openPageToken, sealPageToken } from "../../../src/server/reads/PageToken.ts"
import { TokenCipher } from "../../../src/services/TokenCipher.ts"
import { everything } from "../../fixtures/Ledger.ts"

const cursor = {
  created_at: DateTime.makeUnsafe(1_769_860_800_000),
  id: OperationId.make("019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f")
}

const whole = { ...everything, client_id: ClientId.make("client"), subject: PairwiseSubject.make("subject") }

const lists = [
  whole,
  { ...whole, client_id: ClientId.make("other") },
  { ...whole, subject: PairwiseSubject.make("other") },
  { ...whole, key: IdempotencyKey.make("rent-of-may") },
  { ...whole, key: IdempotencyKey.make("rent-of-june") },
  { ...whole, type: OperationType.make("payment") },
  { ...whole, states: ["failed"] as const },
  { ...whole, states: ["failed", "cancelled"] as const },
  { ...whole, created_after: cursor.created_at },
  { ...whole, created_before: cursor.created_at }
]

layer(Layer.provide(TokenCipher.layerMemory, NodeCrypto.layer))("A page token", (it) => {
  it.effect("belongs to the reader and the filters of its list, and to no other", () =>
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
      const token = yield* sealPageToken(cipher, cursor, { ...whole, states: ["failed", "cancelled"] })
      assert.deepStrictEqual(
        yield* openPageToken(cipher, token, { ...whole, states: ["cancelled", "failed"] }),
        cursor
      )
    }))

  it.effect("shows neither its operation nor its filters", () =>
    Effect.gen(function*() {
      const token = yield* sealPageToken(yield* TokenCipher, cursor, {
        ...whole,
        key: IdempotencyKey.make("rent-of-may")
      })
      const text = Buffer.from(token, "base64url").toString("latin1")
      for (const part of ["rent", cursor.id, "1769860800000"]) assert.notInclude(text, part)
    }))
})
