/**
 * Every process of a ledger opens the tokens of the others, before and after a rotation of the keys, and no forged one. The tests
 * count the statements of processes on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { StoreUnavailable } from "../../../src/services/StoreUnavailable.ts"
import { TokenCipher } from "../../../src/services/TokenCipher.ts"
import { layerRecorded, Statements } from "../../fixtures/Statements.ts"
import { Platform, TestDatabase } from "../../fixtures/TestDatabase.ts"

/** A process with keys of its own memory, and its statements. */
const openProcess = Effect.map(
  Layer.build(Layer.fresh(
    Layer.merge(TokenCipher.layer, Layer.effect(Statements, Statements)).pipe(Layer.provide(layerRecorded))
  )),
  (context) => ({
    cipher: Context.get(context, TokenCipher),
    statements: () => Context.get(context, Statements).length
  })
)

const rotate = SqlClient.SqlClient.use((sql) => sql`INSERT INTO token_keys DEFAULT VALUES`)

const context = ["test"]

layer(Layer.merge(TestDatabase, Platform))("The keys of tokens", (it) => {
  it.effect("are those of the ledger: each process opens the tokens of the others, and reads the keys once", () =>
    Effect.gen(function*() {
      const [one, two] = [yield* openProcess, yield* openProcess]
      for (let n = 0; n < 3; n++) {
        const token = yield* one.cipher.seal("text", context)
        assert.strictEqual(yield* two.cipher.open(token, context), "text")
        assert.isNull(yield* two.cipher.open(token, ["other"]))
      }
      assert.deepStrictEqual([one.statements(), two.statements()], [1, 1])
    }))

  it.effect("may be rotated: old tokens stay good, and new ones are opened by processes that still seal with the old key", () =>
    Effect.gen(function*() {
      const [one, two] = [yield* openProcess, yield* openProcess]
      const old = yield* one.cipher.seal("old", context)
      assert.strictEqual(yield* two.cipher.open(old, context), "old")
      yield* rotate
      yield* TestClock.adjust("1 minute")
      const recent = yield* one.cipher.seal("recent", context)
      assert.notStrictEqual(recent.slice(0, 5), old.slice(0, 5))
      assert.strictEqual(yield* one.cipher.open(old, context), "old")
      const late = yield* openProcess
      yield* rotate
      // The key is newer than the keys that this process knows.
      yield* late.cipher.seal("first", context)
      yield* rotate
      yield* TestClock.adjust("1 second")
      const newest = yield* (yield* openProcess).cipher.seal("newest", context)
      assert.strictEqual(yield* late.cipher.open(newest, context), "newest")
      assert.strictEqual(yield* late.cipher.open(old, context), "old")
    }))

  it.effect("open no token whose key is gone", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { cipher } = yield* openProcess
      const token = yield* cipher.seal("text", context)
      yield* rotate
      yield* sql`DELETE FROM token_keys WHERE created_at < (SELECT max(created_at) FROM token_keys)`
      yield* TestClock.adjust("1 minute")
      assert.isNull(yield* cipher.open(token, context))
    }))

  it.effect("are read at most once a second, however many forged tokens name unknown keys", () =>
    Effect.gen(function*() {
      const { cipher, statements } = yield* openProcess
      yield* cipher.seal("text", context)
      const forged = (n: number) => Buffer.alloc(108, n).toString("base64url")
      for (const second of [1, 2, 3]) {
        for (let n = 0; n < 200; n++) assert.isNull(yield* cipher.open(forged(n), context))
        assert.strictEqual(statements(), second)
        yield* TestClock.adjust("1 second")
      }
    }))

  it.effect("must exist: without any, the store is unavailable, and says what to do", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { cipher } = yield* openProcess
      yield* sql`DELETE FROM token_keys`
      const error = yield* Effect.flip(cipher.seal("text", context))
      assert.instanceOf(error, StoreUnavailable)
      assert.include(String(error.cause), "INSERT INTO token_keys")
      yield* rotate
      assert.isString(yield* cipher.seal("text", context))
    }))
})
