/**
 * GET /v1/operations passes its filters and its page token to the store. The rules of the lists are those of
 * `services/reads/Listing`, `services/reads/FindByKey` and `unit/server/reads/PageToken`. The tests send requests to a gateway on
 * PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { type DateTime, Effect } from "effect"
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
      const { send } = yield* Gateway
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
      for (const query of [`type=payment&page_token=${first.next_page_token}`, "page_token=x"]) {
        const answer = yield* send(`/v1/operations?${query}`, { token: holder.token })
        const { fields } = assertProblemOf(answer, "invalid_page_token", query)
        assert.deepStrictEqual(fields!.map(({ path }) => path), ["query.page_token"])
      }
    }))

  it.effect("bounds created_at on both sides, exclusively, at any offset and to the last digit", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const { created_at: at, id } = yield* accept(holder)
      for (const offset of [0, 330, -1439]) {
        for (const micros of [-1, 0, 1]) {
          const [after, before] = [micros < 0 ? [id] : [], micros > 0 ? [id] : []]
          const instant = spell(at, micros, offset)
          assert.deepStrictEqual(yield* listIds(holder, `?created_after=${instant}`), after, instant)
          assert.deepStrictEqual(yield* listIds(holder, `?created_before=${instant}`), before, instant)
        }
      }
    }))

  it.effect("combines all of its filters", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const operations = yield* Effect.forEach(operationStates, (state) => acceptIn(holder, state))
      yield* acceptMany(holder, 5, "payout")
      const key = Ledger.newKey()
      const { operation } = yield* Ledger.accept(holder.identity, { key })
      const query = [
        "state=indeterminate",
        "state=failed",
        "state=accepted",
        "type=payment",
        `created_after=${spell(operations[0]!.created_at, -1)}`,
        "page_size=50"
      ].join("&")
      const states = ["indeterminate", "failed", "accepted"]
      const expected = [...operations.filter(({ state }) => states.includes(state)), operation]
      assert.deepStrictEqual(yield* listIds(holder, `?${query}`), newestFirst(expected))
      assert.deepStrictEqual(yield* listIds(holder, `?${query}&idempotency_key=${key}`), [operation.id])
    }))
})
