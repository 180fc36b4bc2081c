/**
 * A success that its provider may reverse is read on, until it is reversed or final. A reversal changes nothing of the operation. The tests
 * run against PostgreSQL and the memory store. Those that only PostgreSQL can hold try its triggers.
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Exit, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { LedgerFigures } from "../../../../src/services/operators/LedgerFigures.ts"
import { OperationSearch } from "../../../../src/services/operators/OperationSearch.ts"
import { Backstage } from "../../../fixtures/ledger/Backstage.ts"
import { accept, outcome, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import * as l from "../../../fixtures/ledger/LedgerStories.ts"
import {
  inspect,
  isAbout,
  issueAtNewProvider,
  queued,
  readTerms,
  recording,
  reference,
  standingLosses
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { attempt } from "../../../fixtures/postgres/RawSql.ts"
import { take } from "../../../fixtures/Stories.ts"

const day = Duration.days(1)
const sixtyDays = Duration.days(60)
const terms = { lease: readTerms.lease, idle: day }
const evidence = { by: "status_read", answer: { status: "returned" } }
const untilFinal = { due_in: day, ends_after: Duration.zero }
const reversibleFor = (within: Duration.Duration) =>
  recording({ reference: reference("theirs"), reversible: { within, read_in: day } })

/** An operation that succeeded and may be reversed for this time, with its first read after a day. */
const succeed = Effect.fnUntraced(function*(issued: Pick<l.Scene, "grant" | "identity">, within = sixtyDays) {
  const { id, revision } = yield* queued(issued, "submitted")
  yield* Effect.flatMap(Queue, ({ record }) => record(id, revision, outcome("succeeded"), reversibleFor(within)))
  return { ...issued, id, provider: issued.grant.provider }
})
const reversible = Effect.suspend(() => Effect.flatMap(issueAtNewProvider(), (issued) => succeed(issued)))

const succeeds = (within?: Duration.Duration) => l.creates((scene) => succeed(scene, within))
const reads = (ids: ReadonlyArray<number>): l.Step => (scene) =>
  Effect.flatMap(Queue, ({ takeReversible }) =>
    Effect.map(takeReversible(scene.grant.provider, 100, terms), (due) => {
      assert.deepStrictEqual(due.map(({ operation }) => scene.ids.indexOf(operation.id)), ids)
      for (const one of due) assert.deepInclude(one, { state: "succeeded", reference: reference("theirs") })
    }))
const next = (then: Parameters<Queue["postponeReversible"]>[1]) =>
  l.call((queue, id) => queue.postponeReversible(id, then))
const hints = (answer: string, about?: "reference") =>
  l.answers(answer, (queue, id, { grant }) =>
    queue.hint(
      grant.provider,
      about === undefined ? { operation_id: id } : { reference: reference("theirs") },
      Duration.minutes(2)
    ))
const reverses = (answer: boolean, told: object = evidence) =>
  l.answers(answer, (queue, id) => queue.recordReversal(id, told as typeof evidence))
const has =
  (look: (stored: Effect.Success<ReturnType<Backstage["Service"]["reversal"]>>) => void, n = 0): l.Step => ({ ids }) =>
    Backstage.use((backstage) => Effect.map(backstage.reversal(ids[n]!), look))
const isDue = (time: Duration.Duration, n = 0) => has(({ due_in }) => isAbout(due_in, time), n)
const isReadUntil = (time: Duration.Duration, n = 0) => has(({ until_in }) => isAbout(until_in, time), n)
const isNeverRead = (evidence: unknown = null, n = 0) =>
  has((stored) => assert.deepStrictEqual(stored, { due_in: null, until_in: null, evidence }), n)
const keepsRow = (...steps: l.Story): l.Step => (scene) =>
  Effect.gen(function*() {
    const stored = Effect.map(inspect(scene.ids[0]!), (inside) => ({ ...inside, send_before_in: null }))
    const before = yield* stored
    yield* take(steps, scene)
    assert.deepStrictEqual(yield* stored, before)
  })
const dies = (step: l.Step): l.Step => (scene) =>
  Effect.map(Effect.exit(step(scene)), (exit) => assert.isTrue(Exit.hasDies(exit)))

l.tell("a success that may be reversed", {
  "is read every day, until it is final": [
    // It is being read.
    [succeeds(Duration.hours(36)), reads([]), l.pass(day), reads([0]), reads([])],
    [next(untilFinal), isDue(Duration.hours(12)), l.pass("12 hours"), reads([0])],
    // The provider was not asked, so another read follows.
    [next({ due_in: Duration.hours(1), ends_after: null }), isDue(Duration.hours(1)), l.pass("1 hour"), reads([0])],
    // Its answer was not clear, so the read after this one is the last.
    [next({ due_in: day, ends_after: Duration.days(2) }), l.pass(day), reads([0])],
    [next(untilFinal), isNeverRead(), l.pass(sixtyDays), reads([])]
  ],
  "is reversed once, and that changes nothing of the operation": [
    [succeeds(), l.pass(day), reads([0])],
    l.changesNothing(keepsRow(reverses(true), reverses(false, { ...evidence, answer: "another" }))),
    [isNeverRead(evidence), l.pass(sixtyDays), reads([]), hints("ignored")]
  ],
  "is no operation in another state": (
    ["accepted", "submitting", "submitted", "indeterminate", "failed", "cancelled"] as const
  ).map((state, n) => [
    l.inState(state),
    dies(l.call((queue, id) => queue.recordReversal(id, evidence), n)),
    has((stored) => assert.isNull(stored.evidence, state), n)
  ]),
  "is read sooner after a hint, at most once in an interval": [
    [succeeds(), hints("due", "reference"), hints("ignored"), reads([0])],
    // The answer of the read may be older than the hint.
    [hints("noted"), next(untilFinal), isDue(Duration.minutes(2))]
  ],
  ...Object.fromEntries(standingLosses.map(({ lose, name, restore }) => [
    `is not read when ${name}, and again when that has changed`,
    [
      [succeeds(Duration.days(100_000)), l.pass(day), ({ grant }) => lose(grant), reads([])],
      [({ grant }) => restore(grant), l.pass(day), reads([0])]
    ] as l.Story
  ])),
  "that nothing allows to read when it becomes final is never read again": [
    [succeeds(Duration.hours(12)), l.pass("12 hours"), ({ grant }) => standingLosses[0]!.lose(grant), reads([])],
    [isNeverRead(), ({ grant }) => standingLosses[0]!.restore(grant), l.pass(day), reads([])]
  ],
  "may have been held": [
    [l.inState("accepted"), l.failOver, l.takeHeld([0]), l.pass(readTerms.rescue_after)],
    l.call((queue, id) => queue.recordHeld(id, 1, outcome("succeeded"), reversibleFor(sixtyDays))),
    [isDue(day), isReadUntil(sixtyDays)]
  ],
  "may have been recorded with others, of which no other is read": [
    [l.inState("submitted"), l.inState("submitted"), l.inState("submitted")],
    l.call((queue, _, { ids: [first, second, final] }) =>
      queue.recordAll([
        { id: first!, revision: 3, outcome: outcome("succeeded"), recording: reversibleFor(sixtyDays) },
        { id: second!, revision: 3, outcome: outcome("failed"), recording: reversibleFor(sixtyDays) },
        { id: final!, revision: 3, outcome: outcome("succeeded"), recording: recording() }
      ])
    ),
    [isDue(day), isReadUntil(sixtyDays), isNeverRead(null, 1), isNeverRead(null, 2)]
  ],
  "is read at once if a hint came during the read that proved the success": [
    [l.inState("submitted"), l.pass("10 minutes"), l.takeReads([0]), hints("noted")],
    [l.records("succeeded", reversibleFor(sixtyDays)), isDue(Duration.zero)]
  ]
})

const Operators = Layer.merge(OperationSearch.layer, LedgerFigures.layer).pipe(Layer.provideMerge(PostgresLedger))

layer(Operators, { excludeTestServices: true })("the record of reversals", (it) => {
  it.effect("tells operators of an operation, and lists and counts it for seven days", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const queue = yield* Queue
      const search = yield* OperationSearch
      const [first, second] = [yield* reversible, yield* reversible]
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

  it.effect("tells operators of due reads that no worker makes", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { id, provider } = yield* reversible
      const due = Effect.map(LedgerFigures.use(({ now }) => now), ({ at, due }) =>
        due.flatMap(({ since, ...row }) => row.provider === provider ? [{ ...row, since, at }] : []))
      assert.deepStrictEqual(yield* due, [])
      yield* sql`UPDATE reversal_reads SET due_at = now() - interval '20 days' WHERE operation_id = ${id}`
      const [{ at, since, ...row }] = (yield* due) as [Effect.Success<typeof due>[number]]
      assert.deepStrictEqual(row, { provider, work: "read_success", count: 1 })
      isAbout(at.epochMilliseconds - since.epochMilliseconds, Duration.days(20))
    }))

  it.effect("tells operators when a success is read again and until when it may be reversed, and that a reversal ends the reads", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const search = yield* OperationSearch
      const { grant, id } = yield* reversible
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
      const { id, identity, provider } = yield* reversible
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
