/**
 * A page token belongs to all filters of its list, and shows none of them. The tests encode and decode tokens.
 */
import { NodeCrypto } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import { OperationId } from "../../../src/domain/Operation.ts"
import { decodePageToken, encodePageToken } from "../../../src/server/PageToken.ts"
import { everything } from "../../fixtures/Ledger.ts"

const cursor = {
  created_at: DateTime.makeUnsafe(1_769_860_800_000),
  id: OperationId.make("019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f")
}

describe("A page token", () => {
  it.effect("belongs to the idempotency key of its list, and does not contain it", () =>
    Effect.gen(function*() {
      const keys = [null, IdempotencyKey.make("rent-of-may"), IdempotencyKey.make("rent-of-june")]
      for (const key of keys) {
        const token = yield* encodePageToken(cursor, { ...everything, key })
        assert.notInclude(Buffer.from(token, "base64url").toString("latin1"), "rent")
        for (const other of keys) {
          const decoded = yield* decodePageToken(token, { ...everything, key: other })
          assert.deepStrictEqual(decoded, other === key ? cursor : null)
        }
      }
    }).pipe(Effect.provide(NodeCrypto.layerDigest)))
})
