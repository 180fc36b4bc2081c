/**
 * Each action of an operator is recorded once: with the action, or with the reason for which the ledger refused it. The tests
 * run on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Layer, Result } from "effect"
import { SqlClient } from "effect/sql"
import { OperationId } from "../../../../src/domain/Operation.ts"
import type { AccountableOperator, ActionRefusal } from "../../../../src/domain/operators/OperatorView.ts"
import { nothingToDo } from "../../../../src/domain/operators/recordTexts.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { OperationSearch } from "../../../../src/services/operators/OperationSearch.ts"
import { OperatorActions, type Performed } from "../../../../src/services/operators/OperatorActions.ts"
import { StoreUnavailable } from "../../../../src/services/StoreUnavailable.ts"
import { accept as acceptForApproval, decide, details } from "../../../fixtures/ledger/ApprovedPayments.ts"
import { accept, fieldsOf, operationIn, outcome, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { claimIds, inspect, issueAtNewProvider, readTerms, waitOut } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { evidenceOf } from "../../../fixtures/OperatorEvidence.ts"
import { anotherPool, isSuperuser, openTransaction, terminate, untilWaiting } from "../../../fixtures/postgres/Pools.ts"
import { attempt, modes } from "../../../fixtures/postgres/RawSql.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

const Actions = Layer.mergeAll(OperatorActions.layer, OperationSearch.layer).pipe(Layer.provideMerge(PostgresLedger))

const operator: AccountableOperator = { name: "ada@example.org", via: "console", reason: "asked by the bank" }

const actions = ["review", "end_review", "hold", "release", "cancel", "read"] as const

interface Recorded {
  readonly operator: string
  readonly via: string
  readonly action: string
  readonly operation_id: string | null
  readonly affected: number | null
  readonly reason: string | null
  readonly result: string
}

const recorded = (id: string | null) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql<Recorded>`
      SELECT operator, via, action, operation_id, affected, reason, result FROM operator_actions
      WHERE operation_id IS NOT DISTINCT FROM ${id}::uuid ORDER BY at`)

const unknown = OperationId.make("019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f")

const resultOf = (result: Result.Result<Performed, ActionRefusal | StoreUnavailable>): string =>
  Result.isSuccess(result) ? result.success.result : result.failure.message

layer(Actions, { excludeTestServices: true })("an action of an operator", (it) => {
  it.effect("does what the ledger does, and is recorded with the operator, the place and the reason", () =>
    Effect.gen(function*() {
      const service = yield* OperatorActions
      const { grant: { provider }, identity } = yield* issueAtNewProvider()
      const { operation: { id } } = yield* accept(identity)
      assert.isTrue((yield* service.perform("review", id, operator)).operation.under_review)
      assert.isFalse((yield* service.perform("end_review", id, { ...operator, reason: null })).operation.under_review)
      yield* service.perform("hold", id, { ...operator, via: "command" })
      assert.isTrue((yield* inspect(id)).is_held)
      yield* waitOut(provider)
      yield* service.perform("release", id, operator)
      assert.isFalse((yield* inspect(id)).is_held)
      assert.strictEqual((yield* service.perform("cancel", id, operator)).operation.state, "cancelled")
      assert.strictEqual((yield* service.perform("cancel", id, operator)).operation.state, "cancelled")
      const rows = yield* recorded(id)
      assert.deepStrictEqual(
        rows.map(({ action, reason, result, via }) => [action, via, reason, result]),
        [
          ["review", "console", operator.reason, "done"],
          ["end_review", "console", null, "done"],
          ["hold", "command", operator.reason, "done"],
          ["release", "console", operator.reason, "done"],
          ["cancel", "console", operator.reason, "done"],
          ["cancel", "console", operator.reason, "it was cancelled already"]
        ]
      )
      assert.deepStrictEqual([...new Set(rows.map((row) => row.operator))], [operator.name])
      const history = yield* OperationLedger.use((ledger) => ledger.history(id))
      assert.deepStrictEqual(history.at(-1)!.evidence, {
        by: "operator",
        operator: operator.name,
        reason: operator.reason
      })
    }))

  it.effect("holds what is held, and releases what is not held, with the record that there was nothing to do", () =>
    Effect.gen(function*() {
      const service = yield* OperatorActions
      const { identity } = yield* issueAtNewProvider()
      const { operation: { id } } = yield* accept(identity)
      const repeated = ["release", "hold", "hold", "release", "release"] as const
      for (const action of repeated) {
        const { result } = yield* service.checkAction(action, id, operator, 1)
        assert.strictEqual((yield* service.perform(action, id, operator)).result, result)
      }
      const { hold, release } = nothingToDo
      assert.deepStrictEqual((yield* recorded(id)).map(({ result }) => result), [
        release,
        "done",
        hold,
        "done",
        release
      ])
    }))

  it.effect("holds what waits for an approval, which is shown, and a repetition has nothing to do", () =>
    Effect.gen(function*() {
      const service = yield* OperatorActions
      const { grant, identity } = yield* issueAtNewProvider({ authorization_details: details })
      const { id } = yield* acceptForApproval(identity, { amount: "70" })
      const holdOf = OperationSearch.use(({ detail }) => Effect.map(detail(id), ({ schedule }) => schedule.hold))
      const queue = OperationSearch.use(({ list }) =>
        Effect.map(
          list({ queue: "held", provider: grant.provider, order: "oldest", limit: 10 }),
          ({ operations }) => operations.map(({ operation }) => operation.id)
        )
      )
      assert.notProperty(yield* holdOf, "by_operator")
      assert.deepStrictEqual(yield* queue, [])
      for (const action of ["hold", "hold", "release", "hold"] as const) {
        const { result } = yield* service.checkAction(action, id, operator, 1)
        assert.strictEqual((yield* service.perform(action, id, operator)).result, result)
      }
      assert.deepInclude(yield* holdOf, { kind: "approval", by_operator: true })
      assert.deepStrictEqual(yield* queue, [id])
      yield* decide(id)
      assert.deepStrictEqual(yield* claimIds(grant.provider), [])
      assert.deepStrictEqual(yield* holdOf, {
        kind: "placed",
        examined: false,
        releasable_from: null,
        by_operator: true
      })
      assert.deepStrictEqual(yield* queue, [id])
      yield* service.perform("hold", id, operator)
      yield* service.perform("release", id, operator)
      assert.deepStrictEqual(yield* claimIds(grant.provider), [id])
      assert.deepStrictEqual((yield* recorded(id)).map(({ action, result }) => `${action}: ${result}`), [
        "hold: done",
        `hold: ${nothingToDo.hold}`,
        "release: done",
        "hold: done",
        "approve: done",
        `hold: ${nothingToDo.hold}`,
        "release: done"
      ])
    }))

  it.effect("that records an outcome needs evidence, and stands in the record and in the history with its reason", () =>
    Effect.gen(function*() {
      const service = yield* OperatorActions
      const ledger = yield* OperationLedger
      const { identity } = yield* issueAtNewProvider()
      for (const to of [outcome("succeeded"), outcome("failed")]) {
        for (const state of ["submitting", "submitted"] as const) {
          const { id } = yield* operationIn(identity, state)
          const unproven = yield* Effect.flip(service.advance({ to, evidence: null }, id, operator))
          assert.deepInclude(unproven, { _tag: "IllegalTransition", reason: "evidence_required" })
        }
        const operation = yield* operationIn(identity, "indeterminate")
        const { id } = operation
        const evidence = evidenceOf(operation)
        const without = yield* Effect.flip(service.advance({ to, evidence: null }, id, operator))
        const stale = yield* Effect.flip(service.advance({ to, evidence }, id, operator, 2))
        const settled = yield* service.advance({ to, evidence }, id, operator, 3)
        assert.deepInclude(settled, { state: to.state, revision: 4 })
        const { name, reason } = operator
        assert.deepStrictEqual((yield* ledger.history(id)).at(-1)!.evidence, {
          by: "operator",
          operator: name,
          reason,
          ...evidence
        })
        assert.deepStrictEqual(
          (yield* recorded(id)).map((row) => [row.action, row.operator, row.reason, row.result]),
          [without.message, stale.message, "done"].map((result) => ["advance", name, reason, result])
        )
      }
    }))

  it.effect("that records an outcome stores the reference of the payment, by which searches find the operation", () =>
    Effect.gen(function*() {
      const service = yield* OperatorActions
      const search = yield* OperationSearch
      const { identity } = yield* issueAtNewProvider()
      const operation = yield* operationIn(identity, "indeterminate")
      const evidence = evidenceOf(operation)
      yield* service.advance({ to: outcome("succeeded"), evidence }, operation.id, operator)
      const found = yield* search.find(evidence.reference)
      const listed = yield* search.list({ reference: evidence.reference, order: "newest", limit: 10 })
      for (const operations of [found, listed.operations]) {
        assert.deepStrictEqual(operations.map(({ operation: { id } }) => id), [operation.id])
      }
    }))

  it.effect("that records an outcome is refused with all that is wrong with its evidence, also before it is tried", () =>
    Effect.gen(function*() {
      const service = yield* OperatorActions
      const { identity } = yield* issueAtNewProvider()
      const [paid, operation] = yield* Effect.all([1, 2].map(() => operationIn(identity, "indeterminate")))
      const { answer: _, ...evidence } = evidenceOf(paid!)
      const to = outcome("failed")
      yield* service.advance({ to, evidence: { ...evidence, answer: "Declined." } }, paid!.id, operator)
      const wrong = { to, evidence: { ...evidence, asked: " ", by: "ada", asked_at: "2000-05-02T09:30:00Z" } }
      const refused = yield* Effect.flip(service.checkAdvance(wrong, operation!, operator))
      assert.lengthOf(yield* recorded(operation!.id), 0)
      assert.strictEqual(
        (yield* Effect.flip(service.advance(wrong, operation!.id, operator))).message,
        refused.message
      )
      assert.include(refused.message, "by: Expected no excess property; asked: Expected text; Expected an answer,")
      assert.match(refused.message, /; asked_at [^;]* is before the creation [^]*; the reference is that of operation /)
    }))

  it.effect("on all operations is recorded with their number", () =>
    Effect.gen(function*() {
      const service = yield* OperatorActions
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issueAtNewProvider()
      yield* operationIn(identity, "accepted")
      yield* service.perform("hold", (yield* operationIn(identity, "accepted")).id, operator)
      yield* operationIn(identity, "submitting")
      const [counts] = yield* sql<{ readonly held: number; readonly indeterminate: number }>`
        SELECT count(*) FILTER (WHERE state = 'accepted')::int AS held, count(*) FILTER (WHERE state = 'submitting')::int AS indeterminate
        FROM operations`
      const before = (yield* recorded(null)).length
      const changed = yield* service.holdAll(operator)
      const { held_by_operators, released } = yield* service.releaseAll({ ...operator, reason: null })
      assert.deepStrictEqual(changed, counts!)
      assert.isAtLeast(Math.min(released, held_by_operators, changed.indeterminate), 1)
      assert.strictEqual(released + held_by_operators, changed.held)
      assert.deepStrictEqual(
        (yield* recorded(null)).slice(before).map(({ action, affected, result }) => [action, affected, result]),
        [["hold_all", changed.held + changed.indeterminate, "done"], ["release_all", released, "done"]]
      )
    }))

  it.effect("makes the next status read due now, and says so if there is nothing to read", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const service = yield* OperatorActions
      const { identity } = yield* issueAtNewProvider()
      const read = (id: OperationId) => Effect.result(service.perform("read", id, operator))
      for (const state of specifiedStates) {
        const { id } = yield* operationIn(identity, state)
        const putOff =
          sql`UPDATE operations SET due_at = now() + interval '1 hour' WHERE id = ${id} AND state IN ('submitted', 'indeterminate')`
        const dueRows = sql<{ readonly is_due: boolean | null }>`
          SELECT due_at <= now() AS is_due FROM operations WHERE id = ${id}`
        yield* putOff
        const before = yield* inspect(id)
        const first = resultOf(yield* read(id))
        const rows = yield* dueRows
        if (state === "submitted" || state === "indeterminate") {
          assert.deepStrictEqual([first, rows], ["done", [{ is_due: true }]], state)
          assert.strictEqual(resultOf(yield* read(id)), nothingToDo.read)
          // No interval delays an operator who asks again, as it delays a hint.
          yield* putOff
          assert.deepStrictEqual([resultOf(yield* read(id)), yield* dueRows], ["done", [{ is_due: true }]], state)
        } else if (state === "accepted") {
          assert.strictEqual(first, nothingToDo.unsent)
        } else if (state === "submitting") {
          // It is noted, and the read follows the outcome.
          assert.deepStrictEqual([first, rows], ["done", [{ is_due: false }]])
        } else assert.include(first, `is ${state}, which is final`)
        assert.deepStrictEqual((yield* inspect(id)).revision, before.revision, "no state changes")
        assert.strictEqual((yield* recorded(id))[0]!.result, first)
      }
    }))

  it.effect("reads a held operation that may have been sent, and none that was provably never sent", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const service = yield* OperatorActions
      const { identity } = yield* issueAtNewProvider()
      const read = (id: OperationId) => Effect.map(service.perform("read", id, operator), ({ result }) => result)
      const [{ id: lost }, { id: held }] = [
        yield* operationIn(identity, "accepted"),
        yield* operationIn(identity, "accepted")
      ]
      yield* service.perform("hold", held, operator)
      // As `hold --all` leaves it: nothing proves that it was not sent, and its examination is due.
      yield* sql`UPDATE operations SET hold_placed = true, due_at = now() WHERE id = ${lost}`
      yield* sql`UPDATE operations SET due_at = now() + interval '1 hour' WHERE id = ${held}`
      assert.deepStrictEqual([yield* read(lost), yield* read(held)], [nothingToDo.read, nothingToDo.unsent])
    }))

  it.effect("that ends a review keeps the question to the provider, which a later answer replaces", () =>
    Effect.gen(function*() {
      const service = yield* OperatorActions
      const queue = yield* Queue
      const { identity } = yield* issueAtNewProvider()
      const { id, revision } = yield* operationIn(identity, "indeterminate")
      const unproven = { due_in: readTerms.lease, reference: null, answer: "not found" }
      yield* queue.postpone(id, revision, { ...unproven, review: true, question: "Did you pay 7?" })
      yield* service.perform("review", id, operator)
      yield* service.perform("end_review", id, operator)
      yield* queue.postpone(id, revision, { ...unproven, question: null })
      const { actions } = yield* OperationSearch.use((search) => search.detail(id))
      assert.deepStrictEqual(actions.map(({ action, question }) => [action, question]), [
        ["review", null],
        ["end_review", "Did you pay 7?"]
      ])
    }))

  it.effect("that the ledger refuses changes nothing, and is recorded with the reason, which a check tells before", () =>
    Effect.gen(function*() {
      const service = yield* OperatorActions
      const ledger = yield* OperationLedger
      const { identity } = yield* issueAtNewProvider()
      for (const state of specifiedStates) {
        for (const action of actions) {
          const { id } = yield* operationIn(identity, state)
          const before = [yield* ledger.show(id), yield* ledger.history(id)]
          const { revision } = yield* ledger.show(id)
          const checked = yield* Effect.result(service.checkAction(action, id, operator, revision))
          assert.deepStrictEqual(
            [yield* ledger.show(id), yield* ledger.history(id)],
            before,
            "the check changes nothing"
          )
          assert.isEmpty(yield* recorded(id), "the check is not recorded")
          const result = yield* Effect.result(service.perform(action, id, operator))
          assert.strictEqual(resultOf(checked), resultOf(result), `the check of ${action} of ${state} tells what comes`)
          const rows = yield* recorded(id)
          assert.lengthOf(rows, 1, `${action} of ${state}`)
          if (Result.isFailure(result)) {
            assert.strictEqual(rows[0]!.result, (result.failure as Error).message)
            assert.deepStrictEqual([yield* ledger.show(id), yield* ledger.history(id)], before)
          } else {
            if (action === "cancel") {
              assert.strictEqual(rows[0]!.result, state === "cancelled" ? "it was cancelled already" : "done")
            }
          }
        }
      }
      assert.strictEqual((yield* Effect.flip(service.perform("hold", unknown, operator)))._tag, "OperationNotFound")
      assert.deepStrictEqual((yield* recorded(unknown)).map(({ result }) => result), [
        `there is no operation ${unknown}`
      ])
    }))

  it.effect("is refused if the operation has left the revision that the operator saw, also while it is leaving", () =>
    Effect.gen(function*() {
      const service = yield* OperatorActions
      const { identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      yield* service.perform("review", operation.id, operator, operation.revision)
      const late = yield* Effect.scoped(Effect.gen(function*() {
        const run = yield* openTransaction
        yield* run("UPDATE operations SET state = 'submitting', revision = 2 WHERE id = $1", [operation.id])
        const acting = yield* Effect.forkScoped(
          OperatorActions.use(({ perform }) => Effect.flip(perform("end_review", operation.id, operator, 1))).pipe(
            Effect.provide(another)
          )
        )
        yield* untilWaiting(1)
        yield* run("COMMIT")
        return yield* Fiber.join(acting)
      }))
      assert.deepInclude(fieldsOf(late), { _tag: "StaleOperation", expected: 1, actual: 2 })
      assert.isTrue((yield* OperationLedger.use(({ show }) => show(operation.id))).under_review)
      assert.deepStrictEqual((yield* recorded(operation.id)).map(({ action, result }) => [action, result]), [
        ["review", "done"],
        ["end_review", `operation ${operation.id} is at revision 2, not 1`]
      ])
    }))

  it.effect("by which two operations would end with the same reference happens once, also at the same moment", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider()
      const [first, second] = yield* Effect.all([1, 2].map(() => operationIn(identity, "indeterminate")))
      const evidence = evidenceOf(second!)
      const late = yield* Effect.scoped(Effect.gen(function*() {
        const run = yield* openTransaction
        yield* run("UPDATE operations SET state = 'succeeded', revision = 4, evidence = $2 WHERE id = $1", [
          first!.id,
          JSON.stringify({ by: "operator", ...evidence })
        ])
        const acting = yield* Effect.forkScoped(
          OperatorActions.use(({ advance }) =>
            Effect.exit(advance({ to: outcome("succeeded"), evidence }, second!.id, operator))
          ).pipe(Effect.provide(another))
        )
        yield* untilWaiting(1)
        yield* run("COMMIT")
        return yield* Fiber.join(acting)
      }))
      assert.isTrue(Exit.isFailure(late) && Cause.hasDies(late.cause))
      assert.deepStrictEqual(yield* OperationLedger.use(({ show }) => show(second!.id)), second)
    }))

  it.effect("that cannot be recorded does not happen", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const service = yield* OperatorActions
      const { identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      yield* sql`ALTER TABLE operator_actions ADD CONSTRAINT closed CHECK (operator <> 'nameless') NOT VALID`
      for (const action of ["review", "hold", "cancel"] as const) {
        const exit = yield* Effect.exit(service.perform(action, operation.id, { ...operator, name: "nameless" }))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause), action)
      }
      const all = yield* Effect.exit(service.holdAll({ ...operator, name: "nameless" }))
      assert.isTrue(Exit.isFailure(all))
      yield* sql`ALTER TABLE operator_actions DROP CONSTRAINT closed`
      assert.deepStrictEqual(yield* OperationLedger.use(({ show }) => show(operation.id)), operation)
      assert.isFalse((yield* inspect(operation.id)).is_held)
      assert.isEmpty(yield* recorded(operation.id))
    }))

  it.effect("has an unknown result, and no defect, if the connection is lost in its transaction", () =>
    Effect.gen(function*() {
      const { identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      const lost = yield* Effect.scoped(Effect.gen(function*() {
        const run = yield* openTransaction
        yield* run("SELECT FROM operations WHERE id = $1 FOR UPDATE", [operation.id])
        const acting = yield* Effect.forkScoped(
          OperatorActions.use(({ perform }) => Effect.exit(perform("review", operation.id, operator))).pipe(
            Effect.provide(doomed)
          )
        )
        yield* untilWaiting(1)
        assert.isAtLeast(yield* terminate(doomedName), 1)
        return yield* Fiber.join(acting)
      }))
      assert(Exit.isFailure(lost))
      assert.isFalse(Cause.hasDies(lost.cause), Cause.pretty(lost.cause))
      assert.instanceOf(Cause.squash(lost.cause), StoreUnavailable)
      assert.isFalse((yield* OperationLedger.use(({ show }) => show(operation.id))).under_review)
      assert.isEmpty(yield* recorded(operation.id))
    }))

  it.effect("keeps text that PostgreSQL cannot store readable", () =>
    Effect.gen(function*() {
      const service = yield* OperatorActions
      const { identity } = yield* issueAtNewProvider()
      const { operation: { id } } = yield* accept(identity)
      yield* service.perform("cancel", id, { ...operator, reason: "a\0b\uD800" })
      yield* service.perform("cancel", id, { ...operator, reason: "" })
      assert.deepStrictEqual((yield* recorded(id)).map(({ reason }) => reason), ["a\uFFFDb\uFFFD", null])
    }))
})

const another = Layer.fresh(OperatorActions.layer).pipe(Layer.provide(anotherPool()))

const doomedName = "actions-that-lose-their-connection"

const doomed = Layer.fresh(OperatorActions.layer).pipe(Layer.provide(anotherPool({ applicationName: doomedName })))

layer(Actions, { excludeTestServices: true })("the record of actions", (it) => {
  for (const mode of modes) {
    it.effect(`is append-only, also for its owner (${mode})`, ({ skip }) =>
      Effect.gen(function*() {
        skip(mode === "replica" && !(yield* isSuperuser), "only a superuser may set session_replication_role")
        const service = yield* OperatorActions
        yield* service.holdAll(operator)
        for (
          const statement of [
            "UPDATE operator_actions SET operator = 'other'",
            "DELETE FROM operator_actions",
            "TRUNCATE operator_actions"
          ]
        ) assert.strictEqual(yield* attempt(mode, statement), "23001", statement)
      }))
  }

  it.effect("accepts only complete rows of known actions", () =>
    Effect.gen(function*() {
      const insert = (values: string) =>
        attempt(
          "origin",
          `INSERT INTO operator_actions (operator, via, action, operation_id, affected, reason, result) VALUES (${values})`
        )
      const id = `'${unknown}'`
      assert.isArray(yield* insert(`'ada', 'console', 'hold', ${id}, NULL, NULL, 'done'`))
      for (
        const wrong of [
          `'', 'console', 'hold', ${id}, NULL, NULL, 'done'`,
          `repeat('a', 256), 'console', 'hold', ${id}, NULL, NULL, 'done'`,
          `'ada', 'post', 'hold', ${id}, NULL, NULL, 'done'`,
          `'ada', 'console', 'delete', ${id}, NULL, NULL, 'done'`,
          `'ada', 'console', 'hold', NULL, NULL, NULL, 'done'`,
          `'ada', 'console', 'hold', ${id}, 1, NULL, 'done'`,
          `'ada', 'console', 'hold_all', NULL, NULL, NULL, 'done'`,
          `'ada', 'console', 'hold_all', NULL, -1, NULL, 'done'`,
          `'ada', 'console', 'hold', ${id}, NULL, repeat('a', 1025), 'done'`,
          `'ada', 'console', 'hold', ${id}, NULL, NULL, ''`,
          `'ada', 'console', 'advance', ${id}, NULL, NULL, 'done'`
        ]
      ) assert.strictEqual(yield* insert(wrong), "23514", wrong)
    }))
})
