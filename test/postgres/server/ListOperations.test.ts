/**
 * GET /v1/operations passes its filters and its page token to the store. The rules of the lists are those of
 * `services/Listing`, `services/reads/FindByKey` and `unit/server/reads/PageToken`. The tests send requests to a gateway on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { type DateTime, Effect } from "effect"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import { type Operation, operationStates } from "../../../src/domain/Operation.ts"
import { Gateway, postgresGateway } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf } from "../../fixtures/http/HttpProblem.ts"
import { accept, acceptIn, acceptMany, type Holder, issue, issueAgain } from "../../fixtures/http/HttpScene.ts"
import { json } from "../../fixtures/http/HttpWire.ts"
import * as Ledger from "../../fixtures/ledger/Ledger.ts"

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

layer(postgresGateway({ way: "both" }), { excludeTestServices: true })("GET /v1/operations", (it) => {
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

  it.effect("returns up to 100 operations, newest first, and the others on the next page, also through a new grant", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const operations = newestFirst(yield* acceptMany(holder, 101))
      const first = yield* list(holder)
      assert.deepStrictEqual(idsOf(first), operations.slice(0, 100))
      assert.match(first.next_page_token!, /^[A-Za-z0-9_-]{20,512}$/)
      const next = `?page_size=77&page_token=${first.next_page_token}`
      for (const reader of [holder, yield* issueAgain(holder)]) {
        const rest = yield* list(reader, next)
        assert.deepStrictEqual([idsOf(rest), rest.next_page_token], [operations.slice(100), null])
      }
      assert.deepStrictEqual(yield* listIds(yield* issue(), next), [])
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

  it.effect("continues a page token with its filters in any spelling, and refuses it with others", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const holder = yield* issue()
      yield* acceptMany(holder, 3)
      const spellings = {
        "": ["page_size=3"],
        "state=accepted&state=failed": ["state=failed&state=accepted&state=failed"],
        "created_after=2020-01-01T00:00:00Z": ["created_after=2020-01-01T05:30:00.000%2B05:30"],
        "type=payment&state=accepted": ["state=accepted&type=payment"]
      }
      for (const [issued, others] of Object.entries(spellings)) {
        const { next_page_token } = yield* list(holder, `?${issued}&page_size=1`)
        for (const used of others) yield* list(holder, `?${used}&page_token=${next_page_token}`)
        for (const used of [...Object.keys(spellings).filter((used) => used !== issued), "idempotency_key=key-1"]) {
          const answer = yield* send(`/v1/operations?${used}&page_token=${next_page_token}`, { token: holder.token })
          const { fields } = assertProblemOf(answer, "invalid_page_token", `${issued} -> ${used}`)
          assert.deepStrictEqual(fields!.map(({ path }) => path), ["query.page_token"])
        }
      }
      for (const forged of ["", "x", "null", "%20", "MS4xNzY5ODYwODAwMDAw", "a".repeat(512)]) {
        const answer = yield* send(`/v1/operations?page_token=${forged}`, { token: holder.token })
        assertProblemOf(answer, "invalid_page_token", forged)
      }
    }))
})
