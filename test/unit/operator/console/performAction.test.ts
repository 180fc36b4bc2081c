/** Actions of the console: with the revision that the operator saw, under the operator's name, and with the ledger's reason for a refusal. */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Latch, Layer } from "effect"
import { TestClock } from "effect/testing"
import { AlreadySettled } from "../../../../src/domain/Operation.ts"
import { ConsoleScene, sceneDigest, unavailable } from "../../../fixtures/console/ConsoleScene.ts"
import { ConsoleServer, consoleServer } from "../../../fixtures/console/ConsoleServer.ts"
import { idOf, termsOf } from "../../../fixtures/console/SceneOperations.ts"
import { signIn, Visitor } from "../../../fixtures/console/Visitor.ts"
import { Observer } from "../../../fixtures/http/HttpObserver.ts"
import { operatorEvidence } from "../../../fixtures/OperatorEvidence.ts"

const Served = Layer.provideMerge(consoleServer(ConsoleScene.services), ConsoleScene.layer)

const test = (rule: string, body: () => Effect.Effect<void, never, ConsoleServer | ConsoleScene | Observer>) =>
  it.effect(rule, () => Effect.provide(body(), Served))

/** Indeterminate, at revision 3. */
const id = idOf(2)
const path = `/console/api/operations/${id}/actions`

const review = { action: "review", revision: 3, reason: "the customer asked" }

const waiting = {
  state: "pending",
  created_at: DateTime.makeUnsafe(0),
  expires_at: DateTime.makeUnsafe(0),
  decided_at: null,
  decided_as: null,
  decider: null,
  reason: null
} as const

const operator = Effect.gen(function*() {
  const { link, port } = yield* ConsoleServer
  return yield* signIn(port, link())
})

describe("an action of the console", () => {
  test("is performed under the name of the operator, and answers with the operation after it", () =>
    Effect.gen(function*() {
      const { performed } = yield* ConsoleScene
      const answer = yield* (yield* operator).post(path, review)
      assert.strictEqual(answer.status, 200, answer.text)
      assert.deepInclude((JSON.parse(answer.text) as { readonly operation: object }).operation, {
        id,
        under_review: true
      })
      assert.deepStrictEqual(performed, [
        { action: "review", id, operator: { name: "olivia", via: "console", reason: "the customer asked" } }
      ])
    }))

  test("is refused, and not performed, if the operation has moved on since the operator saw it", () =>
    Effect.gen(function*() {
      const { performed } = yield* ConsoleScene
      const visitor = yield* operator
      for (const revision of [2, 4]) {
        const refused = yield* visitor.post(path, { ...review, revision })
        assert.deepStrictEqual([refused.status, JSON.parse(refused.text).code], [409, "moved_on"])
        assert.include(JSON.parse(refused.text).detail, `is at revision 3, not ${revision}`)
      }
      assert.deepStrictEqual(performed, [])
    }))

  test("that the ledger refuses is 409 with the reason of the ledger", () =>
    Effect.gen(function*() {
      const scene = yield* ConsoleScene
      const refusal = new AlreadySettled({ id, state: "succeeded" })
      scene.onPerform = Effect.fail(refusal)
      const refused = yield* (yield* operator).post(path, { ...review, action: "cancel", reason: "not wanted" })
      assert.strictEqual(refused.status, 409)
      assert.deepInclude(JSON.parse(refused.text), { code: "already_settled", detail: refusal.message })
    }))

  test("that approves an operation repeats the digest beside its terms; each decision has a reason", () =>
    Effect.gen(function*() {
      const { decided, details } = yield* ConsoleScene
      details.set(id, { ...details.get(id)!, approval: waiting })
      const visitor = yield* operator
      const decision = { decision: "approved", request_digest: sceneDigest, reason: "the owner called" }
      const decisionPath = path.replace("/actions", "/decision")
      assert.strictEqual((yield* visitor.post(decisionPath, decision)).status, 200)
      const refused = yield* visitor.post(decisionPath, { ...decision, request_digest: "0".repeat(64) })
      assert.deepStrictEqual([refused.status, JSON.parse(refused.text).code], [409, "illegal_transition"])
      const { request_digest: _, ...blind } = decision
      for (const malformed of [{ ...decision, request_digest: "a" }, { ...decision, reason: " " }, blind]) {
        assert.strictEqual((yield* visitor.post(decisionPath, malformed)).status, 422)
      }
      assert.strictEqual((yield* visitor.post(decisionPath, { ...blind, decision: "denied" })).status, 200)
      const decider = { as: "operator", name: "olivia", via: "console" }
      assert.deepStrictEqual(decided as ReadonlyArray<unknown>, [
        { ...decision, operation_id: id, decider },
        { ...decision, operation_id: id, decider, decision: "denied", request_digest: sceneDigest }
      ])
    }))

  test("on an operation that does not exist is 404", () =>
    Effect.gen(function*() {
      const other = idOf(99)
      const refused = yield* (yield* operator).post(path.replace(id, other), review)
      assert.deepStrictEqual([refused.status, JSON.parse(refused.text).code], [404, "operation_not_found"])
    }))

  test("whose result is unknown says so", () =>
    Effect.gen(function*() {
      const scene = yield* ConsoleScene
      scene.onPerform = Effect.fail(unavailable)
      const answer = yield* (yield* operator).post(path, review)
      assert.strictEqual(answer.status, 503)
      assert.deepInclude(JSON.parse(answer.text), {
        code: "unknown_result",
        detail: "It is unknown whether it happened: read the operation again."
      })
      assert.strictEqual(scene.performed.length, 1)
      const { lines } = yield* Observer
      assert.isTrue(lines.some(({ annotations }) => annotations["cause"] === "the connection was lost"))
    }))

  test("that the database does not answer in time has an unknown result", () =>
    Effect.gen(function*() {
      const scene = yield* ConsoleScene
      scene.onPerform = Effect.andThen(TestClock.adjust("12 seconds"), Effect.never)
      const answer = yield* (yield* operator).post(path, review)
      assert.deepStrictEqual([answer.status, JSON.parse(answer.text).code], [503, "unknown_result"])
    }))

  test("has an unknown result in time, also if its transaction cannot be interrupted", () =>
    Effect.gen(function*() {
      const scene = yield* ConsoleScene
      const end = yield* Latch.make()
      scene.onPerform = Effect.uninterruptible(Effect.andThen(TestClock.adjust("12 seconds"), end.await))
      const answer = yield* Effect.ensuring((yield* operator).post(path, review), end.open)
      assert.deepStrictEqual([answer.status, JSON.parse(answer.text).code], [503, "unknown_result"])
    }))

  test("that was carried out before the database failed is not called unknown", () =>
    Effect.gen(function*() {
      const scene = yield* ConsoleScene
      scene.onPerform = Effect.sync(() => {
        scene.down = true
      })
      const answer = yield* (yield* operator).post(path, review)
      assert.deepStrictEqual([answer.status, JSON.parse(answer.text).code], [503, "done_but_unread"])
    }))

  test("of each kind reaches the ledger", () =>
    Effect.gen(function*() {
      const { performed } = yield* ConsoleScene
      const visitor = yield* operator
      const actions = ["review", "end_review", "hold", "release", "cancel"] as const
      for (const action of actions) yield* visitor.post(path, { action, revision: 3, reason: "case 4711" })
      assert.deepStrictEqual(performed.map(({ action }) => action), [...actions])
    }))

  test("other than a review and a status read is refused without a reason", () =>
    Effect.gen(function*() {
      const { performed } = yield* ConsoleScene
      const visitor = yield* operator
      for (const reason of [null, "", " "]) {
        for (const action of ["hold", "release", "cancel"]) {
          assert.strictEqual((yield* visitor.post(path, { action, revision: 3, reason })).status, 422, action)
        }
      }
      assert.deepStrictEqual(performed, [])
      const free = ["review", "end_review", "read"] as const
      for (const action of free) yield* visitor.post(path, { action, revision: 3, reason: null })
      assert.deepStrictEqual(performed.map(({ action }) => action), [...free])
    }))
})

describe("the record of an outcome", () => {
  const advancePath = path.replace("actions", "advance")
  const outcome = { state: "failed", failure: { code: "never_received", message: "The bank has no such payment." } }
  const record = { outcome, evidence: operatorEvidence, revision: 3, reason: "case 4711" }

  test("reaches the ledger with its evidence, the name of the operator and the reason", () =>
    Effect.gen(function*() {
      const { performed } = yield* ConsoleScene
      const answer = yield* (yield* operator).post(advancePath, record)
      assert.strictEqual(answer.status, 200, answer.text)
      assert.deepStrictEqual(performed, [{
        action: { to: outcome, evidence: operatorEvidence } as never,
        id,
        operator: { name: "olivia", via: "console", reason: "case 4711" }
      }])
    }))

  test("is refused without a reason, without complete evidence, as another state, or with a code of the gateway", () =>
    Effect.gen(function*() {
      const { performed } = yield* ConsoleScene
      const visitor = yield* operator
      const { answer: _, ...incomplete } = operatorEvidence
      for (
        const wrong of [
          { reason: " " },
          { reason: null },
          { evidence: incomplete },
          { outcome: { state: "submitted" } },
          { outcome: { state: "failed" } },
          { outcome: { ...outcome, failure: { ...outcome.failure, code: "provider_unreachable" } } }
        ]
      ) {
        assert.strictEqual(
          (yield* visitor.post(advancePath, { ...record, ...wrong })).status,
          422,
          JSON.stringify(wrong)
        )
      }
      assert.deepStrictEqual(performed, [])
    }))
})

describe("a read of the console", () => {
  const reads = ["overview", "operations", "find?text=key-1", `operations/${id}`]

  test("says that the database did not answer", () =>
    Effect.gen(function*() {
      const scene = yield* ConsoleScene
      const visitor = yield* operator
      scene.down = true
      for (const read of reads) {
        const answer = yield* visitor.send(`/console/api/${read}`)
        assert.deepStrictEqual([answer.status, JSON.parse(answer.text).code], [503, "service_unavailable"], read)
      }
    }))

  test("lists the operations in one state, or in any of several", () =>
    Effect.gen(function*() {
      const visitor = yield* operator
      const { details } = yield* ConsoleScene
      const count = (...states: ReadonlyArray<string>) =>
        [...details.values()].filter(({ operation }) => states.includes(operation.state)).length
      for (
        const [states, expected] of [
          ["state=indeterminate", count("indeterminate")],
          ["state=failed&state=indeterminate", count("failed", "indeterminate")]
        ]
      ) {
        const { text } = yield* visitor.send(`/console/api/operations?${states}`)
        assert.strictEqual(JSON.parse(text).operations.length, expected, `${states}`)
      }
    }))

  test("lists what waits for people by its age, and all else with the latest change first", () =>
    Effect.gen(function*() {
      const visitor = yield* operator
      for (
        const [query, isOldestFirst] of [
          ["", false],
          ["?queue=failed", false],
          ["?queue=indeterminate", true],
          ["?queue=failed&order=oldest", true],
          ["?queue=indeterminate&order=newest", false]
        ] as const
      ) {
        const { text } = yield* visitor.send(`/console/api/operations${query}`)
        const { operations } = JSON.parse(text) as { operations: Array<{ operation: { updated_at: string } }> }
        const times = operations.map(({ operation }) => Date.parse(operation.updated_at))
        assert.isAbove(new Set(times).size, 1, query)
        assert.deepStrictEqual(times, times.toSorted((a, b) => isOldestFirst ? a - b : b - a), query)
      }
    }))

  test("needs no database for the session itself", () =>
    Effect.gen(function*() {
      const scene = yield* ConsoleScene
      const visitor = yield* operator
      scene.down = true
      assert.strictEqual((yield* visitor.send("/console/api/session")).status, 200)
    }))

  test("tells visitors without a session nothing of the ledger", () =>
    Effect.gen(function*() {
      const { port } = yield* ConsoleServer
      for (const read of reads) {
        const { text } = yield* new Visitor(port).send(`/console/api/${read}`)
        // A problem names the path that the visitor sent.
        const { instance: _, ...problem } = JSON.parse(text)
        assert.notInclude(JSON.stringify(problem), "first-bank")
        assert.notInclude(JSON.stringify(problem), id)
      }
    }))
})

describe("the terms of operations", () => {
  test("have escapes in place of the hidden characters of a payee, in every answer", () =>
    Effect.gen(function*() {
      const scene = yield* ConsoleScene
      const payee = "BUKBGB22\u2067 GB33BUKB20201555555555\u200f"
      scene.payee = payee
      for (const [key, detail] of scene.details) {
        scene.details.set(key, { ...detail, terms: detail.terms && { ...detail.terms, payee } })
      }
      const visitor = yield* operator
      const answers = yield* Effect.all([
        visitor.send("/console/api/operations"),
        visitor.send(`/console/api/find?text=${id}`),
        visitor.send(`/console/api/operations/${id}`),
        visitor.post("/console/api/terms", { operations: [id] }),
        visitor.post("/console/api/payee", { payee: termsOf(2).payee }),
        visitor.post(path, review)
      ])
      for (const { status, text } of answers) {
        assert.strictEqual(status, 200, text)
        assert.include(text, JSON.stringify("BUKBGB22\\u{2067} GB33BUKB20201555555555\\u{200f}"))
        assert.notMatch(JSON.stringify(JSON.parse(text)), /[\u2067\u200f]/u)
      }
    }))

  test("are masked in every read, and shown to a named operator by one request for a page", () =>
    Effect.gen(function*() {
      const { details, shown } = yield* ConsoleScene
      details.set(id, { ...details.get(id)!, approval: waiting })
      const visitor = yield* operator
      const list = yield* visitor.send("/console/api/operations")
      assert.include(list.text, "••••3002")
      assert.notInclude(list.text, termsOf(2).amount)
      const ids = [1, 2].map(idOf)
      const answer = yield* visitor.post("/console/api/terms", { operations: ids })
      assert.deepStrictEqual(JSON.parse(answer.text), {
        terms: Object.fromEntries(ids.map((id, n) => [id, termsOf(n + 1)])),
        digests: { [id]: sceneDigest }
      })
      assert.deepStrictEqual<unknown>(shown, [{ ids, operator: { name: "olivia", via: "console", reason: null } }])
      assert.strictEqual((yield* visitor.post("/console/api/terms", { operations: [] })).status, 422)
    }))
})
