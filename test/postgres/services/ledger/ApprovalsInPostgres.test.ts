/**
 * Approvals hold in PostgreSQL against any order of events, forged decisions and other processes. The tests compare with the ledger in memory, and send raw SQL.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import type { Decision } from "../../../../src/domain/Approval.ts"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { Approvals } from "../../../../src/services/Approvals.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { LedgerFigures } from "../../../../src/services/operators/LedgerFigures.ts"
import { OperationSearch } from "../../../../src/services/operators/OperationSearch.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { accept, decide, decisionOf, details, request } from "../../../fixtures/ledger/ApprovedPayments.ts"
import { Backstage } from "../../../fixtures/ledger/Backstage.ts"
import { answerAlike } from "../../../fixtures/ledger/BothLedgers.ts"
import { reasonOf } from "../../../fixtures/ledger/ForgedDecisions.ts"
import { PostgresLedger, type Stores } from "../../../fixtures/ledger/Ledger.ts"
import { claimIds, issueAtNewProvider, late, readTerms, takeIds } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { anotherProcess } from "../../../fixtures/postgres/Pools.ts"
import { attempt, inModes } from "../../../fixtures/postgres/RawSql.ts"

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      accept: fc.record({
        amount: fc.constantFrom("0", "50", "50.01", "70"),
        payee: fc.constantFrom("A", "A", "B"),
        type: fc.constantFrom("transfer", "transfer", "fee")
      })
    })
  },
  {
    weight: 4,
    arbitrary: fc.record({
      of: fc.nat(9),
      decision: fc.constantFrom("approved", "approved", "denied"),
      right: fc.boolean()
    })
  },
  {
    weight: 6,
    arbitrary: fc.record({
      of: fc.nat(9),
      action: fc.constantFrom("hold", "release", "cancel", "review", "end_review", "advance", "settle", "report")
    })
  },
  { weight: 2, arbitrary: fc.constant({ all: "claim" }) },
  {
    weight: 4,
    arbitrary: fc.record({
      all: fc.constantFrom("release", "hold", "fail_over", "hours", "expire", "expire", "examine", "examine")
    })
  }
)

type Doubted = { readonly all?: string; readonly of?: number; readonly action?: string }

interface Answered {
  readonly answer: unknown
  readonly shown: ReadonlyArray<{ readonly state: string; readonly approval: string | undefined }>
}

/**
 * An operation that another history of the ledger may have sent ends not as cancelled, is not decided about, and is not claimed, until
 * it was released. `uncertain`: whether such an operation waited for its approval.
 */
const checkDoubts = (step: Doubted, { answer, shown }: Answered, uncertain: Map<number, boolean>) => {
  for (const [n, { approval, state }] of shown.entries()) {
    const waits = approval === "pending"
    const isTold = step.of !== undefined && step.of % shown.length === n && answer === "done"
    if (step.all === "release" && !waits || isTold && step.action === "release") uncertain.delete(n)
    if (uncertain.has(n)) {
      const isMoved = state === "cancelled" || state === "submitting" && step.all === "claim"
      assert.isFalse(
        isMoved || uncertain.get(n) !== waits && state === "accepted",
        JSON.stringify({ step, n, state, approval })
      )
    }
    if (state !== "accepted") uncertain.delete(n)
    else if (step.all === "hold" || step.all === "fail_over" || isTold && step.action === "report") {
      uncertain.set(n, waits)
    }
  }
}

/** No operation is claimed while an operator holds it: after a hold, and before a release. `held`: those operations. */
const checkHolds = (step: Doubted, { answer, shown }: Answered, held: Set<number>) => {
  if (step.all === "claim") {
    for (const n of answer as ReadonlyArray<number>) assert.isFalse(held.has(n), `${n} is held`)
  }
  if (step.all === "release") held.clear()
  for (const [n, { state }] of shown.entries()) {
    const isTold = step.of !== undefined && step.of % shown.length === n && answer === "done"
    if (isTold && step.action === "hold" && state === "accepted") held.add(n)
    if (isTold && step.action === "release") held.delete(n)
  }
}

/** A run in one ledger. */
interface Run extends Effect.Success<ReturnType<typeof issueAtNewProvider>> {
  readonly operations: Array<OperationId>
  readonly uncertain: Map<number, boolean>
  readonly held: Set<number>
}

const begin = Effect.map(issueAtNewProvider({ authorization_details: details }), (issued): Run => ({
  ...issued,
  operations: [],
  uncertain: new Map(),
  held: new Set()
}))

type AnyStep = typeof step extends fc.Arbitrary<infer S> ? S : never

const perform = Effect.fnUntraced(function*(step: AnyStep, { grant: { provider }, identity, operations }: Run) {
  const ledger = yield* OperationLedger
  const queue = yield* Queue
  const backstage = yield* Backstage
  if ("accept" in step) return void operations.push((yield* accept(identity, step.accept)).id)
  if ("all" in step) {
    const all: Readonly<Record<string, Effect.Effect<unknown, unknown, Stores>>> = {
      release: queue.releaseAll,
      hold: queue.holdAll,
      fail_over: backstage.failOver,
      hours: backstage.pass(Duration.hours(13)),
      expire: queue.expireApprovals(100),
      examine: Effect.andThen(queue.takeHeld(provider, 100, readTerms), backstage.pass(readTerms.rescue_after)),
      claim: Effect.void
    }
    const claimed = step.all === "claim" ? yield* claimIds(provider) : []
    for (const id of claimed) {
      assert.include([undefined, "approved"], (yield* Approvals.use(({ find }) => find(id)))?.state)
    }
    yield* all[step.all]!
    return claimed.map((id) => operations.indexOf(id)).toSorted()
  }
  const id = operations[step.of % Math.max(operations.length, 1)]
  if (id === undefined) return null
  if ("decision" in step) {
    const forged = step.right ? {} : { request_digest: "0".repeat(64) }
    return reasonOf(yield* Effect.exit(decide(id, { decision: step.decision as Decision["decision"], ...forged })))
  }
  const { revision, state } = yield* ledger.show(id)
  const actions: Readonly<Record<string, Effect.Effect<unknown, unknown>>> = {
    hold: queue.hold(id),
    release: queue.release(id),
    cancel: ledger.cancel(id, null),
    review: ledger.review(id, true),
    end_review: ledger.review(id, false),
    advance: ledger.transition(id, revision, { state: "submitting" }, null),
    settle: ledger.transition(id, revision, { state: "succeeded" }, { saw: state }),
    report: state === "accepted" ? queue.report(id, late(null)) : Effect.void
  }
  return reasonOf(yield* Effect.exit(actions[step.action]!))
})

/** The operations after a step. */
const show = Effect.fnUntraced(function*(id: OperationId) {
  const [stored] = yield* Backstage.use(({ inspect }) => inspect([id]))
  const { is_held, revision, state, under_review } = stored!
  const approval = yield* Approvals.use(({ find }) => find(id))
  if (approval?.state === "pending" && state === "accepted") assert.isTrue(under_review)
  return { is_held, revision, state, under_review, approval: approval?.state, decider: approval?.decided_as }
})

layer(PostgresLedger, { excludeTestServices: true })("approvals in PostgreSQL", (it) => {
  it.effect(
    "answer as in memory, through any events of the operations, and none is sent without its approval",
    () =>
      answerAlike(step, { maxLength: 30, numRuns: rounds(40, 600) }, begin, (step, run) =>
        Effect.gen(function*() {
          const answer = yield* perform(step, run)
          const shown = yield* Effect.forEach(run.operations, show)
          checkDoubts(step as Doubted, { answer, shown }, run.uncertain)
          checkHolds(step as Doubted, { answer, shown }, run.held)
          return { step, answer, shown }
        })),
    240_000
  )

  inModes(it, "are decided by no other statement of any role", (mode) =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider({ authorization_details: details })
      const { id } = yield* accept(identity, { amount: "70" })
      const { id: decided } = yield* accept(identity, { amount: "71" })
      yield* decide(decided)
      const { id: denied } = yield* accept(identity, { amount: "72" })
      yield* decide(denied, { decision: "denied" })
      const set = (assignments: string, of = id) => `UPDATE approvals SET ${assignments} WHERE operation_id = '${of}'`
      const decision = "decided_digest = request_digest, decided_as = 'operator', decider = 'anna'"
      const approved = `state = 'approved', ${decision}`
      const refused = {
        "the operation is marked": `UPDATE operations SET approval = 'approved' WHERE id = '${id}'`,
        "the mark is removed": `UPDATE operations SET approval = NULL WHERE id = '${id}'`,
        "a marked operation waits anew": `UPDATE operations SET approval = 'pending' WHERE id = '${decided}'`,
        "the operation is claimed": `UPDATE operations SET state = 'submitting', revision = 2 WHERE id = '${id}'`,
        "its payee is another": `UPDATE operations SET limit_payee = sha256('x') WHERE id = '${id}'`,
        "an operation begins approved": `
          INSERT INTO operations (client_id, resource_owner, subject, grant_id, provider_connection_id, state, revision, id, type,
            idempotency_key, request_digest, limit_amount, limit_currency, approval)
          SELECT client_id, resource_owner, subject, grant_id, provider_connection_id, 'accepted', 1,
            '019aa4f0-5c00-7b1e-8d2f-0000000000aa', type, 'other', request_digest, 1, 'EUR', 'approved'
          FROM operations WHERE id = '${id}'`,
        "without a digest": set("state = 'approved', decided_as = 'operator', decider = 'anna'"),
        "with another digest": set(approved.replace("= request_digest", "= sha256('x')")),
        "by no person": set("state = 'approved', decided_digest = request_digest"),
        "by the requesting client": set(approved.replace("anna", grant.client_id)),
        "by another owner": set(approved.replace("operator", "owner")),
        "before its end": set("state = 'expired'"),
        "while it waits": set("state = 'ended'"),
        "with more time": set("expires_at = expires_at + interval '1 day'"),
        "about another request": set("request_digest = sha256('x')"),
        "twice": set("state = 'denied'", decided),
        "by another name later": set("decider = 'berta'", decided),
        "and undone": set(
          "state = 'ended', decided_digest = NULL, decided_as = NULL, decider = NULL, reason = NULL",
          denied
        ),
        "with a row of its own": `INSERT INTO approvals SELECT * FROM approvals WHERE operation_id = '${id}'`,
        "by a deletion": `DELETE FROM approvals WHERE operation_id = '${id}'`,
        "by a truncation": "TRUNCATE approvals"
      }
      for (const [what, statement] of Object.entries(refused)) {
        assert.match(String(yield* attempt(mode, statement)), /^23/, what)
      }
      // A release of another program changes nothing.
      const release = "UPDATE operations SET hold_placed = false, due_at = now() WHERE id = $1 RETURNING hold_placed"
      assert.deepStrictEqual(yield* attempt(mode, release, [id]), [{ hold_placed: true }])
      yield* Backstage.use(({ pass }) => pass(Duration.hours(24)))
      assert.match(String(yield* attempt(mode, set(approved))), /^23/, "late")
      yield* Backstage.use(({ pass }) => pass(Duration.hours(-24)))
      assert.isArray(yield* attempt(mode, `${set(approved)} RETURNING 1`), "the decision itself is permitted")
      yield* Backstage.use(({ failOver }) => failOver)
      assert.match(String(yield* attempt(mode, set(approved))), /^23/, "after a failover")
      yield* Effect.flatMap(Queue, ({ holdAll }) => holdAll)
      const prove =
        `UPDATE operations o SET unsent_in = h.history, timeline = ledger_timeline(), examined_timeline = NULL
        FROM ledger_home h WHERE o.id = '${id}'`
      assert.match(String(yield* attempt(mode, prove)), /^23/, "not examined")
      yield* takeIds("takeHeld", grant.provider)
      assert.match(String(yield* attempt(mode, prove)), /^23/, "an earlier claim holder may still send it")
      yield* Backstage.use(({ pass }) => pass(Duration.hours(2)))
      assert.match(String(yield* attempt(mode, prove.replace(", examined_timeline = NULL", ""))), /^23/, "examined")
      assert.isArray(yield* attempt(mode, `${prove} RETURNING 1`))
    }))

  it.effect("wait in a queue of operators, those first that end first, and are counted, behind any number of others", () =>
    Effect.gen(function*() {
      const { identity: busy } = yield* issueAtNewProvider({ authorization_details: details })
      const many = Array.from({ length: 501 }, () => request({ type: "transfer", payee: "new" }))
      yield* OperationLedger.use((ledger) => ledger.acceptAll(busy, many))
      const { grant: { provider }, identity } = yield* issueAtNewProvider({ authorization_details: details })
      const [first, second, denied] = yield* Effect.forEach([1, 2, 3], () => accept(identity, { amount: "70" }))
      const free = yield* accept(identity, { type: "fee" })
      yield* decide(denied!.id, { decision: "denied", reason: "unknown shop" })
      const search = yield* OperationSearch
      const { operations } = yield* search.list({ queue: "approval", provider, order: "oldest", limit: 10 })
      assert.deepStrictEqual(operations.map(({ operation }) => operation.id), [first!.id, second!.id])
      const standings = Effect.gen(function*() {
        const { approval, standing } = yield* LedgerFigures.use(({ nowByCondition }) => nowByCondition)
        assert.deepInclude(approval, { provider, count: 2 })
        return standing.flatMap((row) => row.provider === provider ? [[row.condition, row.count]] : [])
      })
      assert.deepStrictEqual(yield* standings, [["accepted", 1], ["approval", 2]], "and not among the held ones")
      yield* Effect.flatMap(Queue, ({ hold }) => hold(free.id))
      assert.deepStrictEqual(yield* standings, [["approval", 2], ["held", 1]])
      const listed = yield* search.list({ queue: "held", provider, order: "oldest", limit: 10 })
      assert.deepStrictEqual(listed.operations.map(({ operation }) => operation.id), [free.id], "as it is counted")
      yield* Effect.flatMap(Queue, ({ hold }) => hold(second!.id))
      assert.deepStrictEqual(yield* standings, [["approval", 1], ["held", 2]], "the hold of an operator is one, too")
      const reasons = (yield* search.held).groups.flatMap((group) =>
        group.provider === provider ? [[group.reason, group.count]] : []
      )
      assert.deepStrictEqual(
        reasons,
        [["approval", 1], ["hold_placed", 2]],
        "the reason is what a person must end first"
      )
      assert.deepInclude((yield* search.detail(denied!.id)).approval, { state: "denied", reason: "unknown shop" })
      assert.isNull((yield* search.detail((yield* accept(identity, { type: "fee" })).id)).approval)
      yield* Backstage.use(({ failOver }) => failOver)
      assert.deepStrictEqual(yield* standings, [["held", 4]], "each needs its release first")
      const held = Effect.map(search.detail(first!.id), ({ schedule }) => schedule.hold)
      assert.deepStrictEqual(yield* held, { kind: "placed", examined: false, releasable_from: null })
      yield* Effect.flatMap(Queue, ({ hold }) => hold(first!.id))
      assert.deepInclude(
        yield* held,
        { by_operator: true },
        "the hold of an operator is shown after a failover, too"
      )
    }).pipe(Effect.provide(Layer.merge(OperationSearch.layer, LedgerFigures.layer))))

  it.effect("count from the start of their transaction, for the ledger as for its trigger", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issueAtNewProvider({ authorization_details: details })
      const elsewhere = yield* Layer.build(anotherProcess())
      const decided = Effect.gen(function*() {
        yield* sql`SELECT now()`
        const { id } = yield* Effect.provideContext(
          Effect.tap(accept(identity, { amount: "70" }), () => Backstage.use(({ pass }) => pass(Duration.hours(24)))),
          elsewhere
        )
        return yield* Effect.exit(decide(id))
      })
      assert.strictEqual(reasonOf(yield* sql.withTransaction(decided)), "done")
    }))

  it.effect("are about no other terms than those that were asked", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issueAtNewProvider({ authorization_details: details })
      const { id } = yield* accept(identity, { amount: "70" })
      const before = yield* decisionOf(id)
      yield* sql`ALTER TABLE operations DISABLE TRIGGER operations_terms`
      yield* sql`UPDATE operations SET terms = overlay(terms PLACING '9' FROM 12) WHERE id = ${id}`
      yield* sql`ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_terms`
      for (const decision of [before, yield* decisionOf(id)]) {
        const exit = yield* Effect.exit(Approvals.use((approvals) => approvals.decide(decision)))
        assert.strictEqual(reasonOf(exit), "DecisionRefused other_request")
      }
      const update = `UPDATE approvals SET state = 'denied', decided_digest = request_digest, decided_as = 'operator',
        decider = 'anna' WHERE operation_id = '${id}'`
      assert.match(String(yield* attempt("origin", update)), /^23/)
    }))
})
