/**
 * Payloads are encrypted with AES-GCM for one operation, and keys rotate. The tests round-trip payloads by property and
 * damage each byte.
 */
import { NodeCrypto } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Layer, Redacted, Schema } from "effect"
import { OperationId } from "../../../src/domain/Operation.ts"
import { layerAesGcm, PayloadCipher, type PayloadKey, PayloadKeyId } from "../../../src/services/PayloadCipher.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"

const crypto = Layer.merge(NodeCrypto.layerAead, Platform)
const one = OperationId.make("019aa4f0-5c00-7b1e-8d2f-000000000001")
const other = OperationId.make("019aa4f0-5c00-7b1e-8d2f-000000000002")

const key = (id: string, byte: number, length = 32): PayloadKey => ({
  id,
  key: Redacted.make(new Uint8Array(length).fill(byte))
})
const [january, february] = [key("2026-01", 1), key("2026-02", 2)]

const operationOf = (id: OperationId, accepted = "2026-01-31T12:00:00Z") => ({
  id,
  created_at: DateTime.makeUnsafe(accepted) as DateTime.Utc
})

/** A cipher with these keys: the first encrypts. */
const cipherOf = (first: PayloadKey, ...more: ReadonlyArray<PayloadKey>) =>
  Effect.provide(
    Effect.map(PayloadCipher, (cipher) => cipher),
    layerAesGcm([first, ...more]).pipe(Layer.provide(crypto))
  )

const bytesOf = (text: string) => new TextEncoder().encode(text)
const unreadable = <A, E extends { readonly _tag: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), ({ _tag }) => assert.strictEqual(_tag, "PayloadUnreadable"))

describe("A payload that is encrypted", () => {
  it.effect.prop(
    "equals the original after decryption, for any content",
    [Schema.Uint8Array],
    ([payload]) =>
      Effect.gen(function*() {
        const cipher = yield* cipherOf(january)
        const sealed = yield* cipher.seal(one, payload)
        assert.strictEqual(sealed.key_id, `${january.id}~72cd6e84`)
        assert.strictEqual(sealed.payload.length, payload.length + 12 + 16, "nonce and tag")
        assert.deepStrictEqual(Buffer.from(yield* cipher.open(operationOf(one), sealed)), Buffer.from(payload))
      }),
    { arbitrary: { runs: 100 } }
  )

  it.effect.prop(
    "is unreadable after any byte is changed, removed or added",
    [Schema.Uint8Array, Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 255 }))],
    ([payload, change]) =>
      Effect.gen(function*() {
        const cipher = yield* cipherOf(january)
        const sealed = yield* cipher.seal(one, payload)
        for (let n = 0; n < sealed.payload.length; n++) {
          const tampered = Uint8Array.from(sealed.payload)
          tampered[n]! ^= change
          yield* unreadable(cipher.open(operationOf(one), { ...sealed, payload: tampered }))
        }
        for (const length of [0, 1, 11, 12, 27, sealed.payload.length - 1]) {
          yield* unreadable(cipher.open(operationOf(one), { ...sealed, payload: sealed.payload.subarray(0, length) }))
        }
        yield* unreadable(
          cipher.open(operationOf(one), { ...sealed, payload: Buffer.concat([sealed.payload, Buffer.of(0)]) })
        )
      }),
    { arbitrary: { runs: 30 } }
  )

  it.effect("belongs to its operation: under another id it is unreadable", () =>
    Effect.gen(function*() {
      const cipher = yield* cipherOf(january)
      yield* unreadable(cipher.open(operationOf(other), yield* cipher.seal(one, bytesOf("payload"))))
    }))

  it.effect("needs its key and the id of its key", () =>
    Effect.gen(function*() {
      const cipher = yield* cipherOf(january, february)
      const sealed = yield* cipher.seal(one, bytesOf("payload"))
      yield* unreadable((yield* cipherOf(february)).open(operationOf(one), sealed))
      yield* unreadable((yield* cipherOf(key(january.id, 9))).open(operationOf(one), sealed))
      yield* unreadable(cipher.open(operationOf(one), { ...sealed, key_id: cipher.keyIds[1]! }))
      yield* unreadable(cipher.open(operationOf(one), { ...sealed, key_id: "unknown" }))
      yield* unreadable((yield* PayloadCipher).open(operationOf(one), sealed))
    }))

  it.effect("stays readable while keys rotate, until its key is removed", () =>
    Effect.gen(function*() {
      const old = yield* (yield* cipherOf(january)).seal(one, bytesOf("old"))
      const rotated = yield* cipherOf(february, january)
      const recent = yield* rotated.seal(one, bytesOf("recent"))
      assert.deepStrictEqual<ReadonlyArray<string | null>>(rotated.keyIds, [recent.key_id, old.key_id])
      for (const [sealed, { id }] of [[old, january], [recent, february]] as const) {
        assert.isTrue(sealed.key_id!.startsWith(`${id}~`))
      }
      assert.deepStrictEqual(Buffer.from(yield* rotated.open(operationOf(one), old)).toString(), "old")
      assert.deepStrictEqual(Buffer.from(yield* rotated.open(operationOf(one), recent)).toString(), "recent")
      yield* unreadable((yield* cipherOf(february)).open(operationOf(one), old))
    }))

  it.effect("is not claimed by a worker that has another key under the same name", () =>
    Effect.gen(function*() {
      const sealed = yield* (yield* cipherOf(january)).seal(one, bytesOf("payload"))
      assert.notInclude((yield* cipherOf(key(january.id, 9))).keyIds, sealed.key_id!)
      assert.include((yield* cipherOf(february, january)).keyIds, sealed.key_id!)
    }))

  it.effect("differs each time, because each encryption has a new nonce", () =>
    Effect.gen(function*() {
      const cipher = yield* cipherOf(january)
      const sealed = yield* Effect.forEach(Array.from({ length: 200 }), () => cipher.seal(one, bytesOf("same")))
      const hex = (part: (payload: Uint8Array) => Uint8Array) =>
        new Set(sealed.map(({ payload }) => Buffer.from(part(payload)).toString("hex"))).size
      assert.strictEqual(hex((payload) => payload.subarray(0, 12)), 200)
      assert.strictEqual(hex((payload) => payload.subarray(12)), 200)
    }))
})

describe("A payload that was stored as plain text", () => {
  it.effect("is readable without keys, at any time of acceptance", () =>
    Effect.gen(function*() {
      const plain = yield* PayloadCipher
      assert.deepStrictEqual(plain.keyIds, [])
      assert.strictEqual(plain.plaintextBefore, Infinity)
      const sealed = yield* plain.seal(one, bytesOf("payload"))
      assert.deepStrictEqual(sealed, { key_id: null, payload: bytesOf("payload") })
      assert.deepStrictEqual(yield* plain.open(operationOf(one), sealed), bytesOf("payload"))
    }))

  it.effect("is refused when there are keys", () =>
    Effect.gen(function*() {
      const sealed = { key_id: null, payload: bytesOf("payload") }
      yield* unreadable((yield* cipherOf(january)).open(operationOf(one, "0001-01-01T00:00:00Z"), sealed))
    }))

  it.effect("is readable with keys if its operation was accepted before the configured instant of the migration", () =>
    Effect.gen(function*() {
      const sealed = { key_id: null, payload: bytesOf("payload") }
      const plaintextUntil = DateTime.makeUnsafe("2026-02-01T00:00:00Z") as DateTime.Utc
      const cipher = yield* Effect.provide(
        Effect.map(PayloadCipher, (cipher) => cipher),
        layerAesGcm([january], { plaintextUntil }).pipe(Layer.provide(crypto))
      )
      const before = operationOf(one, "2026-01-31T23:59:59.999Z")
      assert.deepStrictEqual(yield* cipher.open(before, sealed), bytesOf("payload"))
      yield* unreadable(cipher.open(operationOf(one, "2026-02-01T00:00:00Z"), sealed))
    }))
})

describe("A key for payloads", () => {
  it.effect("is refused unless it has 32 bytes", () =>
    Effect.gen(function*() {
      for (const length of [0, 16, 24, 31, 33, 64]) {
        assert.strictEqual((yield* Effect.flip(cipherOf(key("short", 1, length))))._tag, "CryptoError", String(length))
        assert.strictEqual((yield* Effect.flip(cipherOf(january, key("short", 1, length))))._tag, "CryptoError")
      }
    }))

  it("has an id that the database accepts", () => {
    const isName = Schema.is(PayloadKeyId)
    for (const name of ["a", "2026-01", "prod.eu_1~", "x".repeat(64)]) assert.isTrue(isName(name), name)
    for (const name of ["", "a b", "a:b", "a,b", "ä", "a\n", "x".repeat(65)]) assert.isFalse(isName(name), name)
  })
})
