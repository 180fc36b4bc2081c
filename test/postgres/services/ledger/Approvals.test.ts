/**
 * An operation that needs an approval is sent only after a decision about it: of a person, in time, once, about the same request. Both
 * ledgers give the same answers.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import type { Decision } from "../../../../src/domain/Approval.ts"
import type { AuthorizationDetails } from "../../../../src/domain/AuthorizationDetails.ts"
import { type GrantIdentity, ResourceOwner } from "../../../../src/domain/Grant.ts"
import { type FinancialRequest, IdempotencyKey } from "../../../../src/domain/Idempotency.ts"
import type { Operation, OperationId } from "../../../../src/domain/Operation.ts"
import { Approvals } from "../../../../src/services/Approvals.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { LedgerFigures } from "../../../../src/services/operators/LedgerFigures.ts"
import { OperationSearch } from "../../../../src/services/operators/OperationSearch.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { Backstage } from "../../../fixtures/ledger/Backstage.ts"
import { feedReader } from "../../../fixtures/ledger/Changes.ts"
import { forgeDecisions, reasonOf } from "../../../fixtures/ledger/ForgedDecisions.ts"
import { conformance, drive, InMemoryLedger, pathTo, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { claimIds, issueAtNewProvider, readTerms, takeIds } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { anotherProcess } from "../../../fixtures/postgres/Pools.ts"
import { attempt, inModes } from "../../../fixtures/postgres/RawSql.ts"

const details: AuthorizationDetails = [{
  type: "financial_operations",
  operation_types: ["transfer"],
  budgets: [{ currency: "EUR", amount: "1000.00", per: "grant" }, { currency: "USD", amount: "1000.00", per: "grant" }],
  approval: { above: [{ currency: "EUR", amount: "50.00" }], new_payees: true }
}, { type: "financial_operations", operation_types: ["fee"] }]

interface Asked {
  readonly type?: string
  readonly amount?: string
  readonly currency?: string
  readonly payee?: string
  readonly kept?: boolean
}

let keys = 0
const request = (
  { amount = "1", currency = "EUR", kept = true, payee = "A", type = "transfer" }: Asked = {}
): FinancialRequest => ({
  type,
  key: IdempotencyKey.make(`key-${++keys}`),
  payload: { amount, currency, payee },
  terms: { amount, currency, payee, ...kept ? {} : { kept } }
})

const accept = (grant: GrantIdentity, asked?: Asked) =>
  OperationLedger.use((ledger) => Effect.map(ledger.accept(grant, request(asked)), ({ operation }) => operation))

const waits = (grant: GrantIdentity, asked?: Asked) =>
  Effect.flatMap(
    accept(grant, asked),
    ({ id }) =>
      Approvals.use((approvals) => Effect.map(approvals.find(id), (approval) => approval?.state === "pending"))
  )

/** The decision of the resource owner, for what the owner sees. */
const decisionOf = (id: OperationId, rest: Partial<Decision> = {}) =>
  Approvals.use(({ find }) =>
    Effect.map(find(id), (approval): Decision => ({
      operation_id: id,
      request_digest: approval?.request_digest ?? "0".repeat(64),
      decision: "approved",
      decider: { as: "owner", name: approval?.resource_owner ?? ResourceOwner.make("unknown") },
      reason: null,
      ...rest
    }))
  )

const decide = (id: OperationId, rest: Partial<Decision> = {}) =>
  Effect.flatMap(decisionOf(id, rest), (decision) => Approvals.use((approvals) => approvals.decide(decision)))

/** A payment that was approved, and has an outcome. */
const paid = Effect.fnUntraced(function*(grant: GrantIdentity, asked: Asked, state: keyof typeof pathTo = "succeeded") {
  const operation = yield* accept(grant, asked)
  const approval = yield* Approvals.use(({ find }) => find(operation.id))
  if (approval !== null) yield* decide(operation.id)
  return yield* drive(operation, pathTo[state])
})

conformance("an approval", (it) => {
  it.effect("is needed above the line, in a currency without a line, and for a payee that received nothing yet", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider({ authorization_details: details })
      yield* paid(identity, { payee: "A" })
      yield* paid(identity, { payee: "failed" }, "failed")
      yield* paid(identity, { payee: "unkept", kept: false })
      yield* paid(identity, { payee: "open" }, "submitted")
      const returned = yield* paid(identity, { payee: "returned" })
      yield* Effect.flatMap(Queue, ({ recordReversal }) => recordReversal(returned.id, { saw: "return" }))
      const { identity: other } = yield* issueAtNewProvider({ authorization_details: details })
      const table: ReadonlyArray<readonly [Asked, boolean, GrantIdentity?]> = [
        [{ amount: "50" }, false],
        [{ amount: "50.01" }, true],
        [{ amount: "1", currency: "USD" }, true],
        [{ amount: "0" }, false],
        [{ type: "fee", amount: "100", payee: "fees" }, false],
        [{ payee: "a" }, true],
        [{ payee: "A " }, true],
        [{ payee: "failed" }, true],
        [{ payee: "unkept" }, true],
        [{ payee: "open" }, true],
        [{ payee: "returned" }, true],
        [{ payee: "A" }, true, other],
        // A credential adds approvals, and takes none away.
        [{ amount: "20" }, true, {
          ...identity,
          authorization_details: [{
            type: "financial_operations",
            approval: { above: [{ currency: "EUR", amount: "0" }] }
          }]
        }],
        [{ amount: "60" }, true, { ...identity, authorization_details: [{ type: "financial_operations" }] }]
      ]
      for (const [asked, expected, by = identity] of table) {
        assert.strictEqual(yield* waits(by, asked), expected, JSON.stringify(asked))
      }
    }))

  it.effect("shows what the operation moves; without one the operation is held, under review, and no worker claims it", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider({ authorization_details: details })
      const operation = yield* accept(identity, { amount: "70.00", payee: "DE02" })
      assert.deepInclude(operation, { state: "accepted", under_review: true, revision: 1 })
      const [approval, ...rest] = yield* Approvals.use(({ pending }) =>
        pending({ resource_owner: grant.resource_owner })
      )
      assert.lengthOf(rest, 0)
      assert.deepInclude(approval, {
        operation_id: operation.id,
        state: "pending",
        terms: { amount: "70.00", currency: "EUR", payee: "DE02" },
        decided_at: null
      })
      assert.strictEqual(
        approval!.expires_at.epochMilliseconds - operation.created_at.epochMilliseconds,
        Duration.toMillis("24 hours")
      )
      const feed = feedReader(identity)
      assert.deepStrictEqual(yield* feed.drain(), [operation])
      yield* Backstage.use(({ pass }) => pass(Duration.hours(23)))
      assert.deepStrictEqual(yield* claimIds(grant.provider), [])
      yield* decide(operation.id, { decider: { as: "operator", name: "anna", via: "console" }, reason: "known" })
      const [told, ...more] = yield* feed.drain()
      assert.lengthOf(more, 0)
      assert.deepInclude(told, { id: operation.id, state: "accepted", under_review: false })
      assert.deepStrictEqual(yield* claimIds(grant.provider), [operation.id])
      const ledger = yield* OperationLedger
      assert.isFalse((yield* ledger.show(operation.id)).under_review)
      const { decided_at, ...recorded } = (yield* ledger.history(operation.id)).at(-1)!.evidence as Record<
        string,
        unknown
      >
      assert.deepStrictEqual(recorded, {
        by: "approval",
        decision: "approved",
        decided_as: "operator",
        decider: "anna",
        reason: "known"
      })
      assert.match(String(decided_at), /^\d{4}-.*Z$/)
      assert.isEmpty(yield* Approvals.use(({ pending }) => pending({ resource_owner: grant.resource_owner })))
    }))

  it.effect("that is awaited keeps the operation under review: an operator cannot end it", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider({ authorization_details: details })
      const { id } = yield* accept(identity, { amount: "70" })
      const ledger = yield* OperationLedger
      const refused = yield* Effect.flip(ledger.review(id, false))
      assert.deepInclude(refused, { _tag: "StillHeld", reason: "approval" })
      assert.isTrue((yield* ledger.review(id, true)).under_review)
      yield* decide(id)
      assert.isFalse((yield* ledger.review(id, false)).under_review)
    }))

  it.effect("that is denied or comes too late cancels the operation with evidence, and gives the budget back", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider({ authorization_details: details })
      const left = OperationStore.use((store) => Effect.map(store.limits(identity), ([euros]) => euros!.remaining))
      const denied = yield* accept(identity, { amount: "400.00" })
      const late = yield* accept(identity, { amount: "500.00" })
      assert.strictEqual(yield* left, "100.00")
      yield* decide(denied.id, { decision: "denied", reason: "unknown shop" })
      assert.strictEqual(yield* left, "500.00")
      const { expireApprovals } = yield* Queue
      yield* expireApprovals(100)
      assert.strictEqual(yield* left, "500.00")
      yield* Backstage.use(({ pass }) => pass(Duration.hours(24)))
      assert.strictEqual(reasonOf(yield* Effect.exit(decide(late.id))), "DecisionRefused late")
      yield* expireApprovals(100)
      assert.strictEqual(yield* left, "1000.00")
      const ledger = yield* OperationLedger
      for (const [{ id }, decision] of [[denied, "denied"], [late, "expired"]] as const) {
        assert.strictEqual((yield* ledger.show(id)).state, "cancelled")
        assert.deepInclude((yield* ledger.history(id)).at(-1)!.evidence, { by: "approval", decision })
      }
    }))

  it.effect("is about one operation and its terms, also where other operations have the same request", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider({ authorization_details: details })
      const asked = [{ amount: "70" }, { amount: "70" }, { amount: "70.0" }, { amount: "70", payee: "B" }]
      yield* Effect.forEach(
        asked,
        (terms) => OperationLedger.use((ledger) => ledger.accept(identity, { ...request(terms), payload: "the same" }))
      )
      const [first, ...others] = yield* Approvals.use(({ pending }) =>
        pending({ resource_owner: grant.resource_owner })
      )
      assert.lengthOf(others, 3)
      for (const { request_digest } of others) {
        const exit = yield* Effect.exit(decide(first!.operation_id, { request_digest }))
        assert.strictEqual(reasonOf(exit), "DecisionRefused other_request")
      }
    }))

  it.effect(
    "of an operation that another history may have sent counts once it is proven unsent, and then ends by time",
    () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const queue = yield* Queue
        const backstage = yield* Backstage
        const stateOf = (id: OperationId) => Effect.map(ledger.show(id), ({ state }) => state)
        const doubts = { failover: () => backstage.failOver, holdAll: () => queue.holdAll, report: queue.report }
        for (const [name, doubt] of Object.entries(doubts)) {
          const { grant: { provider }, identity } = yield* issueAtNewProvider({ authorization_details: details })
          const ids = yield* Effect.forEach(
            [1, 2, 3, 4],
            () => Effect.map(accept(identity, { amount: "70" }), ({ id }) => id)
          )
          const [byOperator, byRead, late, unproven] = ids as [OperationId, OperationId, OperationId, OperationId]
          yield* Effect.forEach(ids, (id) => doubt(id, null))
          yield* queue.releaseAll
          const uncertain = Effect.map(Effect.exit(decide(byOperator)), reasonOf)
          assert.strictEqual(yield* uncertain, "DecisionRefused uncertain", name)
          assert.sameMembers([...yield* takeIds("takeHeld", provider)], ids, `${name}: examined at once`)
          yield* backstage.pass(Duration.hours(2))
          assert.strictEqual(yield* uncertain, "DecisionRefused uncertain", name)
          const reads = yield* queue.takeHeld(provider, 10, readTerms)
          const read = reads.find(({ operation }) => operation.id === byRead)!
          yield* queue.releaseUnsent(byRead, read.operation.send_before!)
          yield* queue.release(byOperator)
          yield* queue.release(late)
          assert.deepStrictEqual(yield* claimIds(provider), [], name)
          yield* decide(byRead)
          yield* decide(byOperator)
          assert.sameMembers([...yield* claimIds(provider)], [byOperator, byRead], name)
          yield* backstage.pass(Duration.hours(22))
          yield* queue.expireApprovals(100)
          assert.deepStrictEqual([yield* stateOf(late), yield* stateOf(unproven)], ["cancelled", "accepted"], name)
        }
      }),
    60_000
  )

  it.effect("that is forged changes nothing, and is refused with a reason", () =>
    Effect.gen(function*() {
      const { forged, stay } = yield* forgeDecisions
      for (const decision of fc.sample(forged, 100)) {
        const exit = yield* Effect.exit(Approvals.use((approvals) => approvals.decide(decision)))
        assert.match(String(reasonOf(exit)), /^DecisionRefused /)
      }
      yield* stay
    }))
})

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

layer(PostgresLedger, { excludeTestServices: true })("approvals in PostgreSQL", (it) => {
  it.effect(
    "answer as in memory, whatever happens to the operations, and none is sent without its approval",
    () =>
      Effect.gen(function*() {
        const both = [
          yield* Effect.context<Layer.Success<typeof PostgresLedger>>(),
          yield* Layer.build(Layer.fresh(InMemoryLedger))
        ]
        const run = Effect.runPromiseWith(yield* Effect.context<never>())
        const property = fc.asyncProperty(fc.array(step, { maxLength: 30 }), (steps) =>
          run(Effect.gen(function*() {
            const grants = yield* Effect.forEach(
              both,
              (context) =>
                Effect.provideContext(issueAtNewProvider({ authorization_details: details }), context as never)
            )
            const created: Array<ReadonlyArray<Operation>> = []
            const uncertain = new Map<number, boolean>()
            for (const step of steps) {
              const answers: Array<unknown> = []
              const accepted: Array<Operation> = []
              for (const [n, context] of both.entries()) {
                const { grant, identity } = grants[n]!
                const operations = created.map((pair) => pair[n]!)
                const answer: unknown = yield* Effect.provideContext(
                  Effect.gen(function*() {
                    const ledger = yield* OperationLedger
                    const queue = yield* Queue
                    const backstage = yield* Backstage
                    if ("accept" in step) return void accepted.push(yield* accept(identity, step.accept))
                    if ("all" in step) {
                      const claimed = step.all === "claim" ? yield* claimIds(grant.provider) : []
                      for (const id of claimed) {
                        const approval = yield* Approvals.use(({ find }) => find(id))
                        assert.include([undefined, "approved"], approval?.state)
                      }
                      if (step.all === "release") yield* queue.releaseAll
                      if (step.all === "hold") yield* queue.holdAll
                      if (step.all === "fail_over") yield* backstage.failOver
                      if (step.all === "hours") yield* backstage.pass(Duration.hours(13))
                      if (step.all === "expire") yield* queue.expireApprovals(100)
                      if (step.all === "examine") {
                        yield* queue.takeHeld(grant.provider, 100, readTerms)
                        yield* backstage.pass(readTerms.rescue_after)
                      }
                      return claimed.map((id) => operations.findIndex((operation) => operation.id === id)).toSorted()
                    }
                    const operation = operations[step.of % Math.max(operations.length, 1)]
                    if (operation === undefined) return null
                    const { id } = operation
                    if ("decision" in step) {
                      const decision = step.decision as Decision["decision"]
                      const forged = step.right ? {} : { request_digest: "0".repeat(64) }
                      return reasonOf(yield* Effect.exit(decide(id, { decision, ...forged })))
                    }
                    const { revision, state } = yield* ledger.show(id)
                    const actions = {
                      hold: queue.hold(id),
                      release: queue.release(id),
                      cancel: ledger.cancel(id, null),
                      review: ledger.review(id, true),
                      end_review: ledger.review(id, false),
                      advance: ledger.transition(id, revision, { state: "submitting" }, null),
                      settle: ledger.transition(id, revision, { state: "succeeded" }, { saw: state }),
                      report: state === "accepted" ? queue.report(id, null) : Effect.void
                    }
                    return reasonOf(
                      yield* Effect.exit(actions[step.action as keyof typeof actions] as Effect.Effect<unknown>)
                    )
                  }),
                  context as never
                )
                const ids = [...operations, ...accepted.slice(-1)].map(({ id }) => id)
                const shown = yield* Effect.provideContext(
                  Effect.forEach(ids, (id) =>
                    Effect.gen(function*() {
                      const [stored] = yield* Backstage.use(({ inspect }) => inspect([id]))
                      const { is_held, revision, state, under_review } = stored!
                      const approval = yield* Approvals.use(({ find }) => find(id))
                      if (approval?.state === "pending" && state === "accepted") assert.isTrue(under_review)
                      return {
                        is_held,
                        revision,
                        state,
                        under_review,
                        approval: approval?.state,
                        decider: approval?.decided_as
                      }
                    })),
                  context as never
                )
                answers.push({ step, answer, shown })
              }
              assert.deepStrictEqual(answers[0], answers[1])
              if (accepted.length > 0) created.push(accepted)
              checkDoubts(step as Doubted, answers[0] as Answered, uncertain)
            }
          }) as Effect.Effect<void>))
        yield* Effect.promise(() => fc.assert(property, { numRuns: rounds(40, 600) }))
      }),
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

  it.effect("wait in a queue of operators, those first that end first, and are counted", () =>
    Effect.gen(function*() {
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
      const held = yield* search.list({ queue: "held", provider, order: "oldest", limit: 10 })
      assert.deepStrictEqual(held.operations.map(({ operation }) => operation.id), [free.id], "as it is counted")
      assert.deepInclude((yield* search.detail(denied!.id)).approval, { state: "denied", reason: "unknown shop" })
      assert.isNull((yield* search.detail((yield* accept(identity, { type: "fee" })).id)).approval)
      yield* Backstage.use(({ failOver }) => failOver)
      assert.deepStrictEqual(yield* standings, [["held", 4]], "each needs its release first")
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
