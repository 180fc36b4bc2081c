/**
 * A success that its provider may reverse is read on, until it is reversed or final. A reversal changes nothing of the operation. The tests
 * run against PostgreSQL and the memory store. Those that only PostgreSQL can hold try its triggers.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Exit, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { LedgerFigures } from "../../../../src/services/operators/LedgerFigures.ts"
import { OperationSearch } from "../../../../src/services/operators/OperationSearch.ts"
import { Backstage } from "../../../fixtures/ledger/Backstage.ts"
import { accept, conformance, outcome, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import {
  heldOperation,
  inspect,
  isAbout,
  issueAtNewProvider,
  pass,
  queued,
  readTerms,
  recording,
  reference,
  standingLosses,
  takeIds,
  waitOut
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { attempt } from "../../../fixtures/postgres/RawSql.ts"

const day = Duration.days(1)
const sixtyDays = Duration.days(60)
const terms = { lease: readTerms.lease, idle: day }
const evidence = { by: "status_read", answer: { status: "returned" } }
const read = { due_in: day, ends_after: Duration.zero }

const take = (provider: Parameters<Queue["takeReversible"]>[0], limit = 100) =>
  Effect.flatMap(
    Queue,
    (queue) =>
      Effect.map(queue.takeReversible(provider, limit, terms), (reads) => reads.map(({ operation }) => operation.id))
  )

const reversal = (id: OperationId) => Backstage.use((backstage) => backstage.reversal(id))

/** An operation that succeeded and may be reversed for this time, with its first read after a day. */
const reversible = Effect.fnUntraced(function*(within: Duration.Duration = sixtyDays) {
  const queue = yield* Queue
  const issued = yield* issueAtNewProvider()
  const submitted = yield* queued(issued, "submitted")
  const recorded = recording({ reference: reference("theirs"), reversible: { within, read_in: day } })
  yield* queue.record(submitted.id, submitted.revision, outcome("succeeded"), recorded)
  return { ...issued, id: submitted.id, provider: issued.grant.provider }
})

conformance("a success that may be reversed", (it) => {
  it.effect("is read every day, until it is final", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { id, provider } = yield* reversible(Duration.hours(36))
      assert.isEmpty(yield* take(provider))
      yield* pass(day)
      const [due] = yield* queue.takeReversible(provider, 100, terms)
      assert.deepInclude(due, { state: "succeeded", reference: reference("theirs"), provider })
      assert.strictEqual(due?.operation.id, id)
      assert.isEmpty(yield* take(provider), "it is being read")
      yield* queue.postponeReversible(id, read)
      isAbout((yield* reversal(id)).due_in, Duration.hours(12))
      yield* pass(Duration.hours(12))
      assert.deepStrictEqual(yield* take(provider), [id])
      yield* queue.postponeReversible(id, { due_in: Duration.hours(1), ends_after: null })
      isAbout((yield* reversal(id)).due_in, Duration.hours(1))
      yield* pass(Duration.hours(1))
      assert.deepStrictEqual(yield* take(provider), [id], "the provider was not asked, so this read follows")
      yield* queue.postponeReversible(id, { due_in: day, ends_after: Duration.days(2) })
      yield* pass(day)
      assert.deepStrictEqual(yield* take(provider), [id], "its answer was not clear, so this is the last read")
      yield* queue.postponeReversible(id, read)
      assert.deepStrictEqual(yield* reversal(id), { due_in: null, until_in: null, evidence: null })
      yield* pass(sixtyDays)
      assert.isEmpty(yield* take(provider))
    }))

  it.effect("is reversed once, and that changes nothing of the operation", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const ledger = yield* OperationLedger
      const { id, provider } = yield* reversible()
      const stored = Effect.map(inspect(id), (inside) => ({ ...inside, send_before_in: null }))
      const look = Effect.all([ledger.show(id), ledger.history(id), stored])
      const before = yield* look
      yield* pass(day)
      yield* take(provider)
      assert.isTrue(yield* queue.recordReversal(id, evidence))
      assert.isFalse(yield* queue.recordReversal(id, { ...evidence, answer: "another" }))
      assert.deepStrictEqual(yield* reversal(id), { due_in: null, until_in: null, evidence })
      assert.deepStrictEqual(yield* look, before)
      yield* pass(sixtyDays)
      assert.isEmpty(yield* take(provider))
      assert.strictEqual(yield* queue.hint(provider, { operation_id: id }, Duration.minutes(2)), "ignored")
    }))

  it.effect("is no operation in another state", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      for (const state of ["accepted", "submitting", "submitted", "indeterminate", "failed", "cancelled"] as const) {
        const { id } = yield* queued(issued, state)
        assert.isTrue(Exit.hasDies(yield* Effect.exit(queue.recordReversal(id, evidence))), state)
        assert.isNull((yield* reversal(id)).evidence)
      }
    }))

  it.effect("is read sooner after a hint, at most once in an interval", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const { id, provider } = yield* reversible()
      const interval = Duration.minutes(2)
      const hint = queue.hint(provider, { operation_id: id }, interval)
      assert.strictEqual(yield* queue.hint(provider, { reference: reference("theirs") }, interval), "due")
      assert.strictEqual(yield* hint, "ignored", "the read is due already")
      assert.deepStrictEqual(yield* take(provider), [id])
      assert.strictEqual(yield* hint, "noted", "the answer may be older than the hint")
      yield* queue.postponeReversible(id, read)
      isAbout((yield* reversal(id)).due_in, interval)
    }))

  for (const { lose, name, restore } of standingLosses) {
    it.effect(`is not read when ${name}, and again when that has changed`, () =>
      Effect.gen(function*() {
        const { grant, id, provider } = yield* reversible(Duration.days(100_000))
        yield* pass(day)
        yield* lose(grant)
        assert.isEmpty(yield* take(provider))
        yield* restore(grant)
        yield* pass(day)
        assert.deepStrictEqual(yield* take(provider), [id])
      }))
  }

  it.effect("that nothing allows to read when it becomes final is never read again", () =>
    Effect.gen(function*() {
      const { grant, id, provider } = yield* reversible(Duration.hours(12))
      const [{ lose, restore }] = standingLosses as [typeof standingLosses[number]]
      yield* pass(Duration.hours(12))
      yield* lose(grant)
      assert.isEmpty(yield* take(provider))
      assert.isNull((yield* reversal(id)).until_in)
      yield* restore(grant)
      yield* pass(day)
      assert.isEmpty(yield* take(provider))
    }))

  it.effect("may have been held, or claimed and recorded with others", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const recorded = recording({ reversible: { within: sixtyDays, read_in: day } })
      const held = yield* heldOperation
      yield* waitOut(held.provider)
      yield* queue.recordHeld(held.id, 1, outcome("succeeded"), recorded)
      const issued = yield* issueAtNewProvider()
      const [first, second, final] = [
        yield* queued(issued, "submitted"),
        yield* queued(issued, "submitted"),
        yield* queued(issued, "submitted")
      ]
      yield* queue.recordAll([
        { id: first.id, revision: 3, outcome: outcome("succeeded"), recording: recorded },
        { id: second.id, revision: 3, outcome: outcome("failed"), recording: recorded },
        { id: final.id, revision: 3, outcome: outcome("succeeded"), recording: recording() }
      ])
      for (const [id, isRead] of [[held.id, true], [first.id, true], [second.id, false], [final.id, false]] as const) {
        const { due_in, until_in } = yield* reversal(id)
        if (!isRead) assert.deepStrictEqual([due_in, until_in], [null, null])
        else {
          isAbout(due_in, day)
          isAbout(until_in, sixtyDays)
        }
      }
    }))

  it.effect("is read at once if a hint came during the read that proved the success", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const issued = yield* issueAtNewProvider()
      const { provider } = issued.grant
      const { id, revision } = yield* queued(issued, "submitted")
      yield* pass(Duration.minutes(10))
      assert.deepStrictEqual(yield* takeIds("takeReads", provider), [id])
      assert.strictEqual(yield* queue.hint(provider, { operation_id: id }, Duration.minutes(2)), "noted")
      yield* queue.record(
        id,
        revision,
        outcome("succeeded"),
        recording({ reversible: { within: sixtyDays, read_in: day } })
      )
      isAbout((yield* reversal(id)).due_in, Duration.zero)
    }))
})

const Operators = Layer.merge(OperationSearch.layer, LedgerFigures.layer).pipe(Layer.provideMerge(PostgresLedger))

layer(Operators, { excludeTestServices: true })("the record of reversals", (it) => {
  it.effect("tells operators of an operation, and lists and counts it for seven days", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const queue = yield* Queue
      const search = yield* OperationSearch
      const [first, second] = [yield* reversible(), yield* reversible()]
      assert.isNull((yield* search.detail(first.id)).reversal)
      for (const { id } of [first, second]) yield* queue.recordReversal(id, evidence)
      const { history, operation, reversal } = yield* search.detail(first.id)
      assert.deepStrictEqual(reversal?.evidence, evidence)
      assert.isAtLeast(reversal!.at.epochMilliseconds, operation.completed_at!.epochMilliseconds)
      assert.strictEqual(history.at(-1)?.to, "succeeded")
      const told = Effect.gen(function*() {
        const { operations } = yield* search.list({ queue: "reversed", order: "newest", limit: 1000 })
        const { reversed } = yield* LedgerFigures.use(({ now }) => now)
        return {
          listed: operations.map(({ operation }) => operation.id).filter((id) => [first.id, second.id].includes(id)),
          counted: reversed.filter(({ provider }) => [first.provider, second.provider].includes(provider))
        }
      })
      assert.deepStrictEqual(yield* told, {
        listed: [second.id, first.id],
        counted: [first, second].map(({ provider }) => ({ provider, state: "succeeded", count: 1 }))
      })
      const ofProvider = { queue: "reversed", provider: second.provider, order: "oldest", limit: 10 } as const
      assert.lengthOf((yield* search.list(ofProvider)).operations, 1)
      yield* sql`ALTER TABLE operation_reversals DISABLE TRIGGER operation_reversals_permanent`
      yield* sql`UPDATE operation_reversals SET recorded_at = recorded_at - interval '7 days' WHERE operation_id = ${first.id}`
      yield* sql`ALTER TABLE operation_reversals ENABLE ALWAYS TRIGGER operation_reversals_permanent`
      assert.deepStrictEqual(yield* told, {
        listed: [second.id],
        counted: [{ provider: second.provider, state: "succeeded", count: 1 }]
      })
      assert.isNotNull((yield* search.detail(first.id)).reversal)
    }))

  it.effect("tells operators when a success is read again and until when it may be reversed, and that a reversal ends the reads", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const search = yield* OperationSearch
      const { grant, id } = yield* reversible()
      const { completed_at } = (yield* search.detail(id)).operation
      const look = Effect.gen(function*() {
        const [{ next, schedule }, { operations }] = yield* Effect.all([
          search.detail(id),
          search.list({ resource_owner: grant.resource_owner, order: "newest", limit: 10 })
        ])
        assert.deepStrictEqual(operations.map((summary) => summary.next), [next], "a list says the same")
        return { next, due_at: schedule.due_at }
      })
      const { due_at, next } = yield* look
      assert.strictEqual(next.by, "reconciler")
      isAbout(due_at!.epochMilliseconds - completed_at!.epochMilliseconds, day)
      assert.deepStrictEqual(next.at, due_at)
      // The statement and its trigger read the clock one after the other.
      const [, until = ""] = /until (\S+)\.$/.exec(next.reason) ?? []
      isAbout(Date.parse(until) - completed_at!.epochMilliseconds, sixtyDays)
      yield* queue.recordReversal(id, evidence)
      assert.deepInclude(yield* look, { due_at: null })
      assert.strictEqual((yield* look).next.by, "none")
    }))

  it.effect("permits one row for a succeeded operation of its provider, and no change of it", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const queue = yield* Queue
      const { id, identity, provider } = yield* reversible()
      yield* accept(identity)
      const insert = (of: string, values: string) =>
        `INSERT INTO operation_reversals (operation_id, client_id, provider, evidence)
        SELECT id, client_id, ${values} FROM operations WHERE ${of} LIMIT 1`
      const json = JSON.stringify(evidence)
      for (
        const [statement, refusal] of [
          [insert(`provider = '${provider}' AND state = 'accepted'`, `provider, '${json}'`), "23001"],
          [insert(`id = '${id}'`, `'another', '${json}'`), "23001"],
          [insert(`id = '${id}'`, "provider, '{ }'"), "23514"],
          [insert(`id = '${id}'`, "provider, '[1]'"), "23514"]
        ] as const
      ) {
        assert.strictEqual(yield* attempt("origin", statement), refusal, statement)
      }
      yield* queue.recordReversal(id, evidence)
      assert.strictEqual(yield* attempt("origin", insert(`id = '${id}'`, `provider, '${json}'`)), "23505")
      for (
        const statement of [
          "UPDATE operation_reversals SET evidence = '{\"other\":1}'",
          "DELETE FROM operation_reversals",
          "TRUNCATE operation_reversals"
        ]
      ) {
        assert.strictEqual(yield* attempt("origin", statement), "23001", statement)
      }
      const [row] = yield* sql`SELECT provider, evidence, recorded_at <= now() AS is_past FROM operation_reversals
        WHERE operation_id = ${id}`
      assert.deepStrictEqual(row, { provider, evidence, is_past: true })
    }))
})
