/**
 * GET /v1/operations returns exactly the selected operations, newest first, in pages. The tests combine filters over
 * HTTP against a gateway on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { type DateTime, Effect } from "effect"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import { type Operation, type OperationState, operationStates } from "../../../src/domain/Operation.ts"
import { Gateway, postgresGateway } from "../../fixtures/HttpGateway.ts"
import { accept, acceptIn, acceptMany, type Holder, issue, move } from "../../fixtures/HttpScene.ts"
import { json } from "../../fixtures/HttpWire.ts"
import * as Ledger from "../../fixtures/Ledger.ts"

interface Listed {
  readonly operations: ReadonlyArray<{ readonly id: string; readonly state: string }>
  readonly next_page_token: string | null
}

const list = ({ token }: Holder, query = "") =>
  Gateway.use(({ send }) =>
    Effect.map(send(`/v1/operations${query}`, { token }), (answer) => {
      assert.strictEqual(answer.status, 200, answer.text)
      return json(answer) as Listed
    })
  )

const idsOf = (listed: Listed) => listed.operations.map(({ id }) => id)
const listIds = (holder: Holder, query?: string) => Effect.map(list(holder, query), idsOf)

/** Sorts by `created_at` descending, then by `id` descending. */
const newestFirst = (operations: ReadonlyArray<Operation>) =>
  operations.toSorted((a, b) =>
    b.created_at.epochMilliseconds - a.created_at.epochMilliseconds || (a.id < b.id ? 1 : -1)
  ).map(({ id }) => id)

/** The instant in RFC 3339, `micros` microseconds later, at an offset in minutes. */
const spell = (instant: DateTime.Utc, micros = 0, offsetMinutes = 0): string => {
  const millis = instant.epochMilliseconds + Math.floor(micros / 1000) + offsetMinutes * 60_000
  const rest = String(((micros % 1000) + 1000) % 1000).padStart(3, "0")
  const sign = offsetMinutes < 0 ? "-" : "+"
  const hours = String(Math.floor(Math.abs(offsetMinutes) / 60)).padStart(2, "0")
  const minutes = String(Math.abs(offsetMinutes) % 60).padStart(2, "0")
  const offset = offsetMinutes === 0 ? "Z" : `${sign}${hours}:${minutes}`
  return encodeURIComponent(new Date(millis).toISOString().replace("Z", `${rest}${offset}`))
}

layer(postgresGateway(), { excludeTestServices: true })("GET /v1/operations", (it) => {
  it.effect("returns operations and a page token in an envelope, also when there are none", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      assert.deepStrictEqual(yield* list(holder), { operations: [], next_page_token: null })
      const { id } = yield* accept(holder)
      const listed = yield* list(holder)
      assert.deepStrictEqual(Object.keys(listed), ["operations", "next_page_token"])
      const { send } = yield* Gateway
      assert.deepStrictEqual(
        listed.operations,
        [json(yield* send(`/v1/operations/${id}`, { token: holder.token }))] as never
      )
    }))

  it.effect("returns the newest first, by created_at and then by id", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const operations = yield* Effect.forEach(
        Array.from({ length: 90 }),
        () => accept(holder),
        { concurrency: 16 }
      )
      assert.deepStrictEqual(yield* listIds(holder), newestFirst(operations))
    }))

  it.effect("returns up to 100 operations, and 100 by default", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const operations = yield* acceptMany(holder, 101)
      const first = yield* list(holder)
      assert.deepStrictEqual(idsOf(first), newestFirst(operations).slice(0, 100))
      assert.isString(first.next_page_token)
      assert.deepStrictEqual(idsOf(yield* list(holder, "?page_size=100")), idsOf(first))
      assert.lengthOf((yield* list(holder, "?page_size=1")).operations, 1)
      const rest = yield* list(holder, `?page_token=${first.next_page_token}`)
      assert.deepStrictEqual(idsOf(rest), newestFirst(operations).slice(100))
      assert.isNull(rest.next_page_token)
    }))

  it.effect("has no next page when the last operation is on this one", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      yield* acceptMany(holder, 3)
      assert.isNull((yield* list(holder, "?page_size=3")).next_page_token)
      assert.isString((yield* list(holder, "?page_size=2")).next_page_token)
    }))

  it.effect("selects states: one or several, also repeated", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const operations = yield* Effect.forEach(operationStates, (state) => acceptIn(holder, state))
      const expected = (...states: ReadonlyArray<OperationState>) =>
        newestFirst(operations.filter(({ state }) => states.includes(state)))
      for (const state of operationStates) {
        assert.deepStrictEqual(yield* listIds(holder, `?state=${state}`), expected(state))
      }
      assert.deepStrictEqual(
        yield* listIds(holder, "?state=failed&state=indeterminate&state=failed"),
        expected("failed", "indeterminate")
      )
      const all = operationStates.map((state) => `state=${state}`).join("&")
      assert.deepStrictEqual(yield* listIds(holder, `?${all}`), expected(...operationStates))
    }))

  it.effect("selects a type, alone and with a state", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const payments = yield* acceptMany(holder, 3)
      const refunds = yield* acceptMany(holder, 3, "payment.refund")
      yield* move(refunds[1]!, "cancelled")
      assert.deepStrictEqual(yield* listIds(holder, "?type=payment"), newestFirst(payments))
      assert.deepStrictEqual(yield* listIds(holder, "?type=payment.refund"), newestFirst(refunds))
      assert.deepStrictEqual(yield* listIds(holder, "?type=payment.refund&state=cancelled"), [refunds[1]!.id])
      assert.deepStrictEqual(yield* listIds(holder, "?type=payout"), [])
    }))

  it.effect("selects the operation of an idempotency key, with all characters that a key may have", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      yield* acceptMany(holder, 3)
      const visible = String.fromCharCode(...Array.from({ length: 0x7f - 0x21 }, (_, at) => 0x21 + at))
      for (const key of ["rent-of-may", visible, "%", "k".repeat(255)].map((text) => IdempotencyKey.make(text))) {
        const byKey = `?idempotency_key=${encodeURIComponent(key)}`
        assert.deepStrictEqual(yield* list(holder, byKey), { operations: [], next_page_token: null })
        const { operation } = yield* Ledger.accept(holder.identity, { key })
        const listed = yield* list(holder, `${byKey}&page_size=1`)
        assert.deepStrictEqual(listed, { operations: [...listed.operations], next_page_token: null })
        assert.deepStrictEqual(idsOf(listed), [operation.id])
      }
    }))

  it.effect("selects by a key only the operation that all other filters select, too", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const key = IdempotencyKey.make("rent-of-june")
      const { operation: { created_at: at, id } } = yield* Ledger.accept(holder.identity, { key })
      const filters = {
        [id]: ["state=accepted", "state=failed&state=accepted", "type=payment", `created_after=${spell(at, -1)}`],
        none: ["state=failed", "type=payout", `created_after=${spell(at)}`, `created_before=${spell(at)}`]
      }
      for (const [expected, queries] of Object.entries(filters)) {
        for (const query of queries) {
          const found = yield* listIds(holder, `?idempotency_key=${key}&${query}`)
          assert.deepStrictEqual(found, expected === "none" ? [] : [id], query)
        }
      }
      assert.deepStrictEqual(yield* listIds(holder, `?${filters[id]!.join("&")}&idempotency_key=${key}`), [id])
    }))

  it.effect("bounds created_at on both sides, exclusively, at any offset and to the last digit", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const operation = yield* accept(holder)
      const { created_at: at, id } = operation
      const inside = [id]
      const outside: Array<string> = []
      for (const offset of [0, 330, -480, 1439, -1439]) {
        const bounds = [
          ["created_after", -1, inside],
          ["created_after", 0, outside],
          ["created_after", 1, outside],
          ["created_before", -1, outside],
          ["created_before", 0, outside],
          ["created_before", 1, inside]
        ] as const
        for (const [name, micros, expected] of bounds) {
          const query = `?${name}=${spell(at, micros, offset)}`
          assert.deepStrictEqual(yield* listIds(holder, query), expected, query)
        }
      }
      const window = `?created_after=${spell(at, -1)}&created_before=${spell(at, 1)}`
      assert.deepStrictEqual(yield* listIds(holder, window), inside)
      assert.deepStrictEqual(yield* listIds(holder, "?created_after=2020-01-01T00:00:00Z"), inside)
      assert.deepStrictEqual(yield* listIds(holder, "?created_before=2020-01-01T00:00:00Z"), outside)
    }))

  it.effect("combines all of its filters", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const operations = yield* Effect.forEach(operationStates, (state) => acceptIn(holder, state))
      yield* acceptMany(holder, 5, "payout")
      const query = [
        "state=indeterminate",
        "state=failed",
        "type=payment",
        `created_after=${spell(operations[0]!.created_at, -1)}`,
        `created_before=${spell(operations.at(-1)!.created_at, 1)}`,
        "page_size=50"
      ].join("&")
      const expected = operations.filter(({ state }) => state === "indeterminate" || state === "failed")
      assert.deepStrictEqual(yield* listIds(holder, `?${query}`), newestFirst(expected))
    }))
})
