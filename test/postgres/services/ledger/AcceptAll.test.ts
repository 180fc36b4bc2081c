/**
 * A batch of requests has the results of its requests one by one. The tests run against PostgreSQL and the memory store, and a
 * property compares batches with single acceptances.
 */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Cause, DateTime, Effect, Exit, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import { type GrantIdentity, ProviderName } from "../../../../src/domain/Grant.ts"
import { type FinancialRequest, IdempotencyKey } from "../../../../src/domain/Idempotency.ts"
import type { Acceptance } from "../../../../src/services/Acceptance.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { acceptStatement } from "../../../../src/services/sql/ledger/SqlAcceptances.ts"
import { AcceptanceSignal } from "../../../../src/services/WorkSignals.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { forAll } from "../../../fixtures/forAll.ts"
import {
  accept,
  conformance,
  type Declared,
  declaring,
  expiredIn,
  issue,
  newKey,
  owned,
  PostgresLedger,
  stores
} from "../../../fixtures/ledger/Ledger.ts"
import { layerRecorded, Statements } from "../../../fixtures/postgres/Statements.ts"

const payment = (key: string, payload: Schema.Json = { amount: "10.00" }): FinancialRequest => ({
  type: "payment",
  key: IdempotencyKey.make(key),
  payload
})

const acceptAll = (grant: GrantIdentity, requests: ReadonlyArray<FinancialRequest>) =>
  OperationLedger.use((ledger) => ledger.acceptAll(grant, requests))

/** `created`, `repeated`, or what failed. */
const tagOf = (result: Acceptance): string => {
  if (Exit.isSuccess(result)) return result.value.created ? "created" : "repeated"
  const error = result.cause.reasons.find(Cause.isFailReason)?.error
  return error === undefined ? "died" : error._tag
}

const idOf = (result: Acceptance) => Exit.isSuccess(result) ? result.value.operation.id : null

conformance("a batch of acceptances", (it) => {
  it.effect("yields the results in the order of the requests, each with an operation of its own", () =>
    Effect.gen(function*() {
      const { bound } = yield* OperationLedger
      const { identity } = yield* issue()
      const keys = ["z", "b", "Z", "a", "_", "y"]
      const results = yield* acceptAll(identity, keys.map((key) => payment(key)))
      assert.deepStrictEqual(results.map(tagOf), keys.map(() => "created"))
      for (const [n, key] of keys.entries()) {
        const operation = yield* bound({ ...identity, key: IdempotencyKey.make(key) })
        assert.deepStrictEqual(results[n], Exit.succeed({ operation: operation!, created: true }))
      }
      const ids = results.map(idOf)
      assert.deepStrictEqual(ids, ids.toSorted(), "the ids are in the order of the requests")
      assert.lengthOf(yield* owned(identity), keys.length)
    }))

  it.effect("takes an empty list, also of a grant in bad standing", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue({ expires_in: expiredIn })
      assert.deepStrictEqual(yield* acceptAll(identity, []), [])
    }))

  it.effect("takes more requests than one statement does: 1,201, with every tenth key twice", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const keys = Array.from({ length: 1201 }, (_, n) => `many-${n % 10 === 9 ? (n * 7919) % n : n}`)
      const seen = new Set<string>()
      const expected = keys.map((key) => {
        const tag = seen.has(key) ? "repeated" : "created"
        seen.add(key)
        return tag
      })
      assert.deepStrictEqual((yield* acceptAll(identity, keys.map((key) => payment(key)))).map(tagOf), expected)
      assert.lengthOf(yield* owned(identity), seen.size)
    }))
})

const careful = ProviderName.make("careful")

const dying = Schema.String.check(Schema.makeFilter(() => {
  throw new Error("a defect of a schema")
}))

const declared: Declared = {
  careful: { payment: Schema.Struct({ amount: Schema.String }) },
  broken: { payment: dying }
}

/** One request of a random run. */
const request = fc.record({
  type: fc.constantFrom("payment", "payment", "refund", "BAD TYPE"),
  key: fc.constantFrom("a", "B", "c", "_", "d"),
  payload: fc.constantFrom<Schema.Json>({ amount: "1" }, { amount: "2" }, { amount: 3 }, null, "\ud800")
})

/** A batch, and whether its process declares payloads. */
const batch = fc.record({
  declares: fc.boolean(),
  requests: fc.array(request, { maxLength: 12 })
})

for (const [name, store, ledger] of stores) {
  layer(store, { excludeTestServices: true })(`a batch of acceptances (${name})`, (it) => {
    it.effect("gives a defect of a schema to the requests of its provider alone", () =>
      Effect.gen(function*() {
        const { identity } = yield* issue({ provider: ProviderName.make("broken") })
        const { identity: other } = yield* issue()
        const requests = [payment("a", "text"), { ...payment("b"), type: "refund" }]
        const tags = (grant: GrantIdentity) => Effect.map(acceptAll(grant, requests), (results) => results.map(tagOf))
        yield* Effect.gen(function*() {
          assert.deepStrictEqual(yield* tags(identity), ["died", "InvalidFinancialRequest"])
          assert.deepStrictEqual(yield* tags(other), ["created", "created"])
        }).pipe(declaring(ledger, declared))
      }))

    it.effect("is announced once to the workers, and not at all if it creates nothing", () =>
      Effect.gen(function*() {
        const { identity } = yield* issue()
        const announced: Array<string> = []
        const signal = Layer.effect(
          AcceptanceSignal,
          Effect.map(AcceptanceSignal, (silent) => ({
            ...silent,
            announce: (provider: ProviderName) => Effect.sync(() => void announced.push(provider))
          }))
        )
        const requests = [payment("a"), payment("b"), payment("c"), payment("a", 1)]
        yield* Effect.gen(function*() {
          yield* acceptAll(identity, requests)
          assert.deepStrictEqual(announced, ["bank"])
          yield* acceptAll(identity, requests)
          assert.deepStrictEqual(announced, ["bank"])
        }).pipe(Effect.provide(Layer.fresh(ledger.pipe(Layer.provide(signal)))))
      }))

    it.effect("has the results and the operations of its requests one by one, for any requests and any division into batches", () =>
      Effect.gen(function*() {
        type Batches = ReadonlyArray<typeof batch extends fc.Arbitrary<infer B> ? B : never>

        const acceptEach = (grant: GrantIdentity, requests: ReadonlyArray<FinancialRequest>) =>
          Effect.forEach(requests, (request) => Effect.exit(accept(grant, request))) as Effect.Effect<
            // The grant is in good standing, and the store answers.
            ReadonlyArray<Acceptance>,
            never,
            OperationLedger
          >

        /** The results of all requests, and the operations, which are numbered, because their ids differ. */
        const play = Effect.fnUntraced(function*(batches: Batches, accepting: typeof acceptEach | typeof acceptAll) {
          const { bound, history } = yield* OperationLedger
          const { identity } = yield* issue({ provider: careful })
          const results: Array<Acceptance> = []
          for (const { declares, requests } of batches) {
            const typed = requests.map(({ key, ...rest }) => ({ ...rest, key: IdempotencyKey.make(key) }))
            results.push(...yield* accepting(identity, typed).pipe(declaring(ledger, declares ? declared : {})))
          }
          const ids = [...new Set(results.map(idOf).filter((id) => id !== null))]
          const numbered = results.map((result) =>
            Exit.isSuccess(result)
              ? { created: result.value.created, operation: ids.indexOf(result.value.operation.id) }
              : result.cause.reasons.filter(Cause.isFailReason).map(({ error }) => ({
                ...error,
                message: error.message
              }))
          )
          const operations = yield* Effect.forEach(["a", "B", "c", "_", "d"], (key) =>
            Effect.gen(function*() {
              const operation = yield* bound({ ...identity, key: IdempotencyKey.make(key) })
              if (operation === null) return null
              const { created_at: _, updated_at: __, id, ...rest } = operation
              const entries = yield* history(id)
              return {
                ...rest,
                number: ids.indexOf(id),
                entries: entries.map(({ at, ...entry }) => [DateTime.isDateTime(at), entry])
              }
            }))
          assert.lengthOf(yield* owned(identity), ids.length)
          return { numbered, operations }
        })

        yield* forAll(
          fc.array(batch, { minLength: 1, maxLength: 4 }),
          rounds(40, 100),
          (batches) =>
            Effect.gen(function*() {
              assert.deepStrictEqual(yield* play(batches, acceptAll), yield* play(batches, acceptEach))
            })
        )
      }))
  })
}

layer(PostgresLedger, { excludeTestServices: true })("the statements of a batch", (it) => {
  it.effect("have up to 500 requests and up to 4 MiB of payloads each", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const statements = yield* Statements
      const sizes = Effect.fnUntraced(function*(requests: ReadonlyArray<FinancialRequest>) {
        statements.length = 0
        yield* acceptAll(identity, requests)
        return statements.flatMap(({ parameters, text }) =>
          text === acceptStatement
            ? [(parameters[9] as ReadonlyArray<Uint8Array>).map(({ length }) => length)]
            : []
        )
      })
      const many = Array.from({ length: 501 }, () => payment(newKey(), 1))
      assert.deepStrictEqual((yield* sizes(many)).map(({ length }) => length), [500, 1])
      const longest = "x".repeat(262_144 - 2)
      const large = Array.from({ length: 33 }, () => payment(newKey(), longest))
      assert.deepStrictEqual((yield* sizes(large)).map(({ length }) => length), [16, 16, 1])
      assert.deepStrictEqual((yield* acceptAll(identity, large)).map(tagOf), large.map(() => "repeated"))
    }).pipe(Effect.provide(
      Layer.fresh(OperationLedger.layer).pipe(Layer.provideMerge(layerRecorded), Layer.provide(NodeCrypto.layer))
    )))
})

layer(PostgresLedger, { excludeTestServices: true })("a batch that PostgreSQL refuses because of one row", (it) => {
  it.effect("keeps the other rows: the refused one has the defect, and nothing of it is recorded", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue()
      yield* sql.unsafe(`
        CREATE FUNCTION refuse_poison() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          RAISE EXCEPTION 'poison';
        END $$`).unprepared
      yield* sql.unsafe(`
        CREATE TRIGGER refuse_poison BEFORE INSERT ON operations FOR EACH ROW
        WHEN (NEW.idempotency_key = 'poison') EXECUTE FUNCTION refuse_poison()`).unprepared
      const requests = [payment("a"), payment("poison"), payment("a", 1), payment("poison"), payment("a"), payment("z")]
      const expected = ["created", "died", "BindingConflict", "died", "repeated", "created"]
      assert.deepStrictEqual((yield* acceptAll(identity, requests)).map(tagOf), expected)
      assert.lengthOf(yield* owned(identity), 2)
      // A caller's transaction continues.
      const later = [payment("poison"), payment("later")]
      const results = yield* sql.withTransaction(acceptAll(identity, later))
      assert.deepStrictEqual(results.map(tagOf), ["died", "created"])
      assert.lengthOf(yield* owned(identity), 3)
    }))
})
