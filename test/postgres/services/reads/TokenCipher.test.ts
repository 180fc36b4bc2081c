/**
 * Every process of a ledger opens the tokens of the others, before and after a rotation of the keys, and no forged one. The tests
 * count the statements of processes on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { StoreUnavailable } from "../../../../src/services/StoreUnavailable.ts"
import { TokenCipher } from "../../../../src/services/TokenCipher.ts"
import { anotherPool, whileLocked } from "../../../fixtures/postgres/Pools.ts"
import { layerRecorded, Statements } from "../../../fixtures/postgres/Statements.ts"
import { Platform, TestDatabase } from "../../../fixtures/postgres/TestDatabase.ts"

/** A process with keys of its own memory, and its statements. */
const openProcess = Effect.map(
  Layer.build(Layer.fresh(
    Layer.merge(TokenCipher.layer, Layer.effect(Statements, Statements)).pipe(
      Layer.provide(layerRecorded),
      // It fails soon while the test locks the table.
      Layer.provide(anotherPool({ maxConnections: 1, startupParameters: { lock_timeout: "50" } }))
    )
  )),
  (context) => ({
    cipher: Context.get(context, TokenCipher),
    statements: () => Context.get(context, Statements).length
  })
)

const context = ["test"]

/** The first bytes of a token name its key. */
const keyOf = (token: string) => token.slice(0, 5)

/** Adds a key that was made so many minutes ago. */
const addKey = (minutes: number) =>
  SqlClient.SqlClient.use((sql) =>
    sql`INSERT INTO token_keys (created_at) VALUES (clock_timestamp() - make_interval(mins => ${minutes}::int))`
  )

/** Leaves one key, which is old. */
const begin = SqlClient.SqlClient.use((sql) => Effect.andThen(sql`DELETE FROM token_keys`, addKey(10)))

const reasonOf = <A, R>(effect: Effect.Effect<A, { readonly _tag: string; readonly reason?: string }, R>) =>
  Effect.map(Effect.flip(effect), (error) => error.reason ?? error._tag)

layer(Layer.merge(TestDatabase, Platform))("The keys of tokens", (it) => {
  it.effect("are those of the ledger: each process opens the tokens of the others, and reads the keys once a minute", () =>
    Effect.gen(function*() {
      yield* begin
      const [one, two] = [yield* openProcess, yield* openProcess]
      for (const minute of [1, 2]) {
        for (let n = 0; n < 3; n++) {
          const token = yield* one.cipher.seal("text", context)
          assert.strictEqual(yield* two.cipher.open(token, context), "text")
          assert.strictEqual(yield* reasonOf(two.cipher.open(token, ["other"])), "forged")
        }
        assert.deepStrictEqual([one.statements(), two.statements()], [minute, minute])
        yield* TestClock.adjust("1 minute")
      }
    }))

  it.effect("seal once every process has read them: none meets a token whose key it does not know", () =>
    Effect.gen(function*() {
      yield* begin
      const [early, late] = [yield* openProcess, yield* openProcess]
      const old = yield* early.cipher.seal("old", context)
      yield* addKey(0)
      const young = yield* late.cipher.seal("young", context)
      assert.strictEqual(keyOf(young), keyOf(old))
      assert.strictEqual(yield* early.cipher.open(young, context), "young")
      yield* addKey(3)
      yield* TestClock.adjust("1 minute")
      const rotated = yield* early.cipher.seal("rotated", context)
      assert.notStrictEqual(keyOf(rotated), keyOf(old))
      // The keys of before stay good.
      for (const process of [early, late, yield* openProcess]) {
        assert.strictEqual(yield* process.cipher.open(old, context), "old")
        assert.strictEqual(yield* process.cipher.open(rotated, context), "rotated")
      }
    }))

  it.effect("end their tokens with their rows", () =>
    Effect.gen(function*() {
      yield* begin
      const { cipher } = yield* openProcess
      const token = yield* cipher.seal("text", context)
      yield* begin
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* reasonOf(cipher.open(token, context)), "unknown_key")
    }))

  it.effect("are not read for made-up tokens, however many there are", () =>
    Effect.gen(function*() {
      const { cipher, statements } = yield* openProcess
      yield* cipher.seal("text", context)
      const bytes = (length: number, n: number) => Buffer.alloc(length, n).toString("base64url")
      for (const text of ["", "A", ".", "MS5o", bytes(44, 1), bytes(107, 1), bytes(109, 1)]) {
        assert.strictEqual(yield* reasonOf(cipher.open(text, context)), "forged")
      }
      for (let n = 0; n < 200; n++) {
        assert.strictEqual(yield* reasonOf(cipher.open(bytes(108, n), context)), "unknown_key")
      }
      assert.strictEqual(statements(), 1)
    }))

  it.effect("stay known while they cannot be read, and an unknown one is not refused then", () =>
    Effect.gen(function*() {
      yield* begin
      const { cipher } = yield* openProcess
      const token = yield* cipher.seal("text", context)
      const other = Buffer.alloc(108, 1).toString("base64url")
      yield* whileLocked(
        "token_keys",
        Effect.gen(function*() {
          assert.strictEqual(yield* cipher.open(token, context), "text")
          yield* TestClock.adjust("1 minute")
          assert.strictEqual(yield* reasonOf(cipher.open(other, context)), "unknown_key")
          yield* TestClock.adjust("1 minute")
          assert.strictEqual(yield* cipher.open(token, context), "text")
          assert.strictEqual(yield* reasonOf(cipher.open(other, context)), "StoreUnavailable")
        })
      )
    }))

  it.effect("are secret: each row, each ledger and each ledger in memory has another", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      for (let n = 0; n < 3; n++) yield* addKey(0)
      const rows = yield* sql<{ readonly key: Uint8Array }>`SELECT key FROM token_keys`
      assert.isAtLeast(rows.length, 4)
      assert.strictEqual(new Set(rows.map(({ key }) => Buffer.from(key).toString("hex"))).size, rows.length)
      const memory = Effect.map(Layer.build(Layer.fresh(TokenCipher.layerMemory)), (context) =>
        Context.get(context, TokenCipher))
      const token = yield* (yield* memory).seal("text", context)
      assert.strictEqual(yield* reasonOf((yield* memory).open(token, context)), "forged")
    }))

  it.effect("must exist: without any, the store is unavailable, and says what to do", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { cipher } = yield* openProcess
      yield* sql`DELETE FROM token_keys`
      const error = yield* Effect.flip(cipher.seal("text", context))
      assert.instanceOf(error, StoreUnavailable)
      assert.include(String(error.cause), "INSERT INTO token_keys")
      yield* addKey(0)
      yield* TestClock.adjust("1 second")
      assert.isString(yield* cipher.seal("text", context))
    }))
})
