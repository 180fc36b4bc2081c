/**
 * A walk through the pages shows each operation once, and only the gateway's own page tokens continue it. The tests
 * walk over HTTP and forge tokens.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { Gateway, postgresGateway } from "../../fixtures/HttpGateway.ts"
import { assertProblemOf } from "../../fixtures/HttpProblem.ts"
import { accept, acceptMany, type Holder, issue, issueAgain, move } from "../../fixtures/HttpScene.ts"
import { json } from "../../fixtures/HttpWire.ts"

interface Page {
  readonly operations: ReadonlyArray<{ readonly id: string }>
  readonly next_page_token: string | null
}

const ask = ({ token }: Holder, query: string) => Gateway.use(({ send }) => send(`/v1/operations?${query}`, { token }))

const page = (holder: Holder, query: string) =>
  Effect.map(ask(holder, query), (answer) => {
    assert.strictEqual(answer.status, 200, answer.text)
    return json(answer) as Page
  })

/** All pages from this target on; `between` runs before each of them. */
const walk = Effect.fnUntraced(function*<E, R>(
  holder: Holder,
  query: string,
  sizes: ReadonlyArray<number>,
  between: (at: number) => Effect.Effect<unknown, E, R>
) {
  const ids: Array<string> = []
  let token: string | null = null
  let at = 0
  do {
    yield* between(at)
    const size = `page_size=${sizes[at++ % sizes.length]}`
    const { next_page_token, operations }: Page = yield* page(
      holder,
      [query, size, ...token === null ? [] : [`page_token=${token}`]].filter((part) => part !== "").join("&")
    )
    ids.push(...operations.map(({ id }) => id))
    token = next_page_token
  } while (token !== null)
  return ids
})

const ids = (operations: ReadonlyArray<{ readonly id: string }>) => operations.map(({ id }) => id)

layer(postgresGateway(), { excludeTestServices: true })("A walk through the pages", (it) => {
  it.effect("shows each operation exactly once, with any sizes of pages", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      yield* Effect.forEach(Array.from({ length: 60 }), () => accept(holder), { concurrency: 16 })
      const expected = ids((yield* page(holder, "page_size=100")).operations)
      assert.lengthOf(expected, 60)
      for (const sizes of [[1], [7], [59], [60], [61], [1, 100], [13, 2, 5]]) {
        assert.deepStrictEqual(yield* walk(holder, "", sizes, () => Effect.void), expected)
      }
    }))

  it.effect("shows each operation once despite transitions and new operations between pages", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const operations = yield* acceptMany(holder, 20)
      const expected = ids((yield* page(holder, "")).operations)
      const walked = yield* walk(holder, "", [3], (at) =>
        at === 0 ? Effect.void : Effect.gen(function*() {
          yield* accept(holder)
          for (const operation of operations.splice(-3)) yield* move(operation, "submitting", "succeeded")
        }))
      assert.deepStrictEqual(walked, expected)
    }))

  it.effect("with a state filter continues in place after the last shown operation left the state", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      const operations = yield* acceptMany(holder, 10)
      const expected = ids((yield* page(holder, "state=accepted")).operations)
      const byId = new Map(operations.map((operation) => [operation.id as string, operation]))
      const first = yield* page(holder, "state=accepted&page_size=4")
      for (const { id } of first.operations) yield* move(byId.get(id)!, "cancelled")
      const second = yield* page(holder, `state=accepted&page_token=${first.next_page_token}`)
      assert.deepStrictEqual([...ids(first.operations), ...ids(second.operations)], expected)
      assert.isNull(second.next_page_token)
    }))

  it.effect("continues through a new grant of the same owner, and shows no operation of others", () =>
    Effect.gen(function*() {
      const holder = yield* issue()
      yield* acceptMany(holder, 4)
      const first = yield* page(holder, "page_size=2")
      const renewed = yield* issueAgain(holder)
      const rest = yield* page(renewed, `page_token=${first.next_page_token}`)
      assert.lengthOf(rest.operations, 2)
      const stranger = yield* issue()
      const strange = yield* accept(stranger)
      const seen = yield* page(stranger, `page_token=${first.next_page_token}`)
      assert.notInclude(ids(seen.operations), ids(rest.operations)[0])
      assert.isEmpty(ids(seen.operations).filter((id) => id !== strange.id))
    }))
})

layer(postgresGateway(), { excludeTestServices: true })("A page token", (it) => {
  const filters = [
    "",
    "state=accepted",
    "state=accepted&state=failed",
    "type=payment",
    "created_after=2020-01-01T00:00:00Z",
    "created_before=2100-01-01T00:00:00Z",
    "created_after=2020-01-01T00:00:00.001Z",
    "state=accepted&type=payment"
  ]

  const tokenOf = (holder: Holder, query: string) =>
    Effect.map(page(holder, `${query}&page_size=1`), ({ next_page_token }) => next_page_token!)

  const owner = Effect.tap(issue(), (holder) => acceptMany(holder, 3))

  it.effect("is opaque, safe in a URL, and shorter than its limit", () =>
    Effect.gen(function*() {
      const token = yield* tokenOf(yield* owner, "")
      assert.match(token, /^[A-Za-z0-9_-]{20,512}$/)
    }))

  it.effect("belongs to its filters: with any others it is 422 invalid_page_token", () =>
    Effect.gen(function*() {
      const holder = yield* owner
      for (const issued of filters) {
        const token = yield* tokenOf(holder, issued)
        // A list by key has one page, and issues no token.
        for (const used of [...filters, "idempotency_key=key-1"]) {
          const answer = yield* ask(holder, `${used}&page_token=${token}`)
          if (used === issued) assert.strictEqual(answer.status, 200, used)
          else {
            const { fields } = assertProblemOf(answer, "invalid_page_token", `${issued} -> ${used}`)
            assert.deepStrictEqual(fields!.map(({ path }) => path), ["query.page_token"])
          }
        }
      }
    }))

  it.effect("accepts the same filters in any spelling", () =>
    Effect.gen(function*() {
      const holder = yield* owner
      const same = [
        ["state=accepted&state=failed", "state=failed&state=accepted&state=failed"],
        ["created_after=2020-01-01T00:00:00Z", "created_after=2020-01-01T05:30:00.000%2B05:30"],
        ["type=payment&state=accepted", "state=accepted&type=payment"]
      ]
      for (const [issued, used] of same) {
        const token = yield* tokenOf(holder, issued!)
        yield* page(holder, `${used}&page_token=${token}`)
        yield* page(holder, `page_token=${token}&page_size=77&${used}`)
      }
    }))

  it.effect("with any bit changed is 422 invalid_page_token", () =>
    Effect.gen(function*() {
      const holder = yield* owner
      const token = yield* tokenOf(holder, "")
      const text = (bytes: string) => Buffer.from(bytes, "latin1").toString("base64url")
      const plain = Buffer.from(token, "base64url")
      const flipped = Array.from({ length: plain.length * 8 }, (_, bit) => {
        const bytes = Buffer.from(plain)
        bytes[bit >> 3]! ^= 1 << (bit & 7)
        return bytes.toString("base64url")
      })
      const forged = [
        "",
        "x",
        "null",
        "0",
        text("1..x"),
        text("1.1769860800000.019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"),
        text("1.1769860800000.019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f.00000000000000000000000000000000"),
        `${token}A`,
        `${token}=`,
        `${token}%00`,
        `%20${token}`,
        token.toLowerCase(),
        ...Array.from({ length: token.length }, (_, length) => token.slice(0, length)),
        ...flipped
      ]
      yield* Effect.forEach(
        forged,
        (candidate) =>
          Effect.map(ask(holder, `page_token=${candidate}`), (answer) =>
            assertProblemOf(answer, "invalid_page_token", candidate)),
        { concurrency: 16 }
      )
    }))

  it.effect("that the gateway did not issue is 422 for any string", () =>
    Effect.gen(function*() {
      const holder = yield* owner
      const context = yield* Effect.context<Gateway>()
      const run = Effect.runPromiseWith(context)
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(fc.string({ unit: "grapheme", maxLength: 60 }), async (text) => {
            const answer = await run(ask(holder, `page_token=${encodeURIComponent(text)}`))
            assertProblemOf(answer, "invalid_page_token", text)
          }),
          { seed: 20261121, numRuns: 300 }
        )
      )
    }))
})
