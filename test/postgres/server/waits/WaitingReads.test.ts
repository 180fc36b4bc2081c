/**
 * `Prefer: wait` over HTTP and on PostgreSQL: the answer comes with the commit, or at the end of the time. `unit/server/waits` has the
 * rules of waits. The tests wait for statements of the gateway, so that a request waits when a test goes on.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Latch } from "effect"
import { SqlClient } from "effect/sql"
import { Gateway, type Request } from "../../../fixtures/http/HttpGateway.ts"
import { assertProblemOf } from "../../../fixtures/http/HttpProblem.ts"
import { accept, type Holder, issue, move } from "../../../fixtures/http/HttpScene.ts"
import { type Answer, json } from "../../../fixtures/http/HttpWire.ts"
import { countOf, more, parametersOf, recordedGateway } from "../../../fixtures/http/RecordedGateway.ts"

interface Page {
  readonly operations: ReadonlyArray<{ readonly id: string; readonly state: string }>
  readonly next_change_token: string
  readonly has_more: boolean
}

/** The cast: the gateway fixture has checked the answer against the contract. */
const pageOf = (answer: Answer) => json(answer) as Page

const feed = "/v1/operations/changes"

const get = (target: string, { token }: Holder, headers: Request["headers"] = {}) =>
  Gateway.use(({ send }) => send(target, { token, headers }))

/** Sends a request, and returns once the gateway has read for it and waits for changes. */
const startWait = Effect.fnUntraced(function*(
  target: string,
  holder: Holder,
  headers: Request["headers"] = {},
  seconds = 60
) {
  const kind = target.startsWith(feed) ? "feed" : "operation"
  const before = yield* countOf(kind)
  const waiting = yield* Effect.forkChild(get(target, holder, { prefer: `wait=${seconds}`, ...headers }))
  while ((yield* countOf(kind)) === before) yield* Effect.sleep(5)
  yield* more("tick", 2)
  return waiting
})

/** A holder with an operation, the path of the operation, and a token behind all changes. */
const scene = Effect.gen(function*() {
  const holder = yield* issue()
  const operation = yield* accept(holder)
  const target = `/v1/operations/${operation.id}`
  const { headers } = yield* get(target, holder)
  const { next_change_token: after } = pageOf(yield* get(feed, holder))
  return { holder, operation, target, tag: headers["etag"]!, after }
})

const assertHonoured = (answer: Answer, status: number, seconds = 60) => {
  assert.strictEqual(answer.status, status)
  assert.strictEqual(answer.headers["preference-applied"], `wait=${seconds}`)
  assert.strictEqual(answer.headers["vary"], "Accept, Authorization, Prefer")
  assert.strictEqual(answer.headers["cache-control"], "private, no-cache")
}

layer(recordedGateway(), { excludeTestServices: true })("A read that waits", (it) => {
  it.effect("with an entity tag is answered with the next change", () =>
    Effect.gen(function*() {
      const { holder, operation, tag, target } = yield* scene
      const waiting = yield* startWait(target, holder, { "if-none-match": tag })
      yield* move(operation, "submitting")
      const answer = yield* Fiber.join(waiting)
      assertHonoured(answer, 200)
      assert.notStrictEqual(answer.headers["etag"], tag)
      assert.deepInclude(json(answer) as object, { state: "submitting", revision: 2 })
    }))

  it.effect("of the feed is answered with the next change that its filters match", () =>
    Effect.gen(function*() {
      const { after, holder, operation } = yield* scene
      const plain = yield* startWait(`${feed}?after=${after}`, holder)
      const filtered = pageOf(yield* get(`${feed}?state=submitted`, holder)).next_change_token
      const waiting = yield* startWait(`${feed}?state=submitted&after=${filtered}`, holder)
      const submitting = yield* move(operation, "submitting")
      const answer = yield* Fiber.join(plain)
      assertHonoured(answer, 200)
      assert.deepStrictEqual(pageOf(answer).operations.map(({ id, state }) => [id, state]), [[
        operation.id,
        "submitting"
      ]])
      yield* more("tick", 2)
      assert.isUndefined(waiting.pollUnsafe())
      const [before] = yield* parametersOf("feed")
      yield* move(submitting, "submitted")
      const { has_more, operations } = pageOf(yield* Fiber.join(waiting))
      assert.deepStrictEqual([operations.map(({ id }) => id), has_more], [[operation.id], false])
      // It continued behind the change that did not match.
      assert.notDeepEqual((yield* parametersOf("feed"))[0], before)
    }))

  it.effect("sees the change of a transaction that began before others, once it commits", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { after, holder, operation, tag, target } = yield* scene
      const one = yield* startWait(target, holder, { "if-none-match": tag })
      const all = yield* startWait(`${feed}?after=${after}`, holder)
      const other = yield* issue()
      const began = yield* Latch.make()
      // A fiber from outside of the transaction has a connection of its own.
      const later = yield* Effect.forkChild(Effect.andThen(began.await, accept(other)))
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`UPDATE operations SET under_review = true WHERE id = ${operation.id}`
        yield* began.open
        // The watcher passes the change of a later transaction, which commits first.
        yield* Fiber.join(later)
        yield* more("tick", 3)
        assert.deepStrictEqual([one.pollUnsafe(), all.pollUnsafe()], [undefined, undefined])
      }))
      assertHonoured(yield* Fiber.join(one), 200)
      assert.lengthOf(pageOf(yield* Fiber.join(all)).operations, 1)
    }))

  it.effect("is answered after its time: 304, 200, or an empty page with a token that continues", () =>
    Effect.gen(function*() {
      const { after, holder, operation, tag, target } = yield* scene
      const wait = { prefer: "wait=1" }
      const [held, pending, page] = yield* Effect.all([
        get(target, holder, { ...wait, "if-none-match": tag }),
        get(target, holder, wait),
        get(`${feed}?after=${after}`, holder, wait)
      ], { concurrency: "unbounded" })
      assertHonoured(held, 304, 1)
      assertHonoured(pending, 200, 1)
      assertHonoured(page, 200, 1)
      const { has_more, next_change_token, operations } = pageOf(page)
      assert.deepStrictEqual([operations, has_more], [[], false])
      yield* move(operation, "submitting")
      assert.lengthOf(pageOf(yield* get(`${feed}?after=${next_change_token}`, holder)).operations, 1)
    }))

  it.effect("is answered at once if the condition holds, or if the preference is none", () =>
    Effect.gen(function*() {
      const { holder, operation, tag, target } = yield* scene
      assertHonoured(yield* get(target, holder, { prefer: "wait=99", "if-none-match": "\"other\"" }), 200)
      assertHonoured(yield* get(feed, holder, { prefer: "respond-async, Wait=\"60\"" }), 200)
      for (const prefer of ["wait=0", "wait", "respond-async"]) {
        const answer = yield* get(target, holder, { prefer, "if-none-match": tag })
        assert.deepStrictEqual([answer.status, answer.headers["preference-applied"]], [304, undefined])
      }
      yield* move(operation, "cancelled")
      assertHonoured(yield* get(target, holder, { prefer: "wait=60" }), 200)
      const list = yield* get("/v1/operations", holder, { prefer: "wait=60" })
      assert.deepStrictEqual([list.status, list.headers["preference-applied"]], [200, undefined])
    }))

  it.effect("ends with 410 if the ledger gets another history", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { after, holder, tag, target } = yield* scene
      const waiting = yield* startWait(`${feed}?after=${after}`, holder)
      const one = yield* startWait(target, holder, { "if-none-match": tag }, 3)
      yield* sql`UPDATE ledger_home SET history = gen_random_uuid()`
      assertProblemOf(yield* Fiber.join(waiting), "change_token_expired")
      // The operation itself is as it was.
      assertHonoured(yield* Fiber.join(one), 304, 3)
    }))
})

const bounded = { maxInFlight: 2, maxInFlightPerClient: 2, maxWaiting: 2, maxWaitingPerClient: 1 }

layer(recordedGateway({ lifecycle: bounded }), { excludeTestServices: true })(
  "The limits of waiting requests",
  (it) => {
    it.effect("leave further requests without a wait, and the slots to others", () =>
      Effect.gen(function*() {
        const [one, two, three] = [yield* scene, yield* scene, yield* scene]
        const waiting = [
          yield* startWait(one.target, one.holder),
          yield* startWait(`${feed}?after=${two.after}`, two.holder)
        ]
        for (const { holder, tag, target } of [one, three]) {
          const answer = yield* get(target, holder, { prefer: "wait=60", "if-none-match": tag })
          assert.deepStrictEqual([answer.status, answer.headers["preference-applied"]], [304, undefined])
          assert.strictEqual(answer.headers["vary"], "Accept, Authorization, Prefer")
        }
        const page = yield* get(`${feed}?after=${three.after}`, three.holder, { prefer: "wait=60" })
        assert.deepStrictEqual([pageOf(page).operations, page.headers["preference-applied"]], [[], undefined])
        yield* move(one.operation, "cancelled")
        yield* move(two.operation, "cancelled")
        for (const fiber of waiting) assertHonoured(yield* Fiber.join(fiber), 200)
      }))
  }
)
