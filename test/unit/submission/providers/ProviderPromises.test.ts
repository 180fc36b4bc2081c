/**
 * What follows from the promises of a provider: which are refused, when "not found" is final, which operations are read, and what a person is
 * asked. The tables are the rules of docs/providers.md.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, DateTime, Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import type { ProviderReference } from "../../../../src/domain/Submission.ts"
import {
  namesNothing,
  StatusAnswer,
  SubmissionAnswer,
  Uncertain
} from "../../../../src/submission/providers/ProviderAdapter.ts"
import {
  checkPromises,
  isFinalNotFound,
  notFoundIsFinalFrom,
  type ProviderPromises
} from "../../../../src/submission/providers/ProviderPromises.ts"
import { decideAfterRead } from "../../../../src/submission/reads/decideAfterRead.ts"
import { operationOf } from "../../../fixtures/submission/HttpProviderServer.ts"
import {
  evidence,
  findsById,
  makeWorld,
  neverReceived,
  notFound,
  reference,
  type Script,
  unclear
} from "../../../fixtures/submission/World.ts"

const at = DateTime.makeUnsafe("2026-01-01T00:00:30Z")
const due = {
  operation: { send_before: at },
  reference: null,
  created_at: DateTime.subtract(at, { seconds: 30 }),
  taken_at: at
}
const readAfter = (seconds: number) => ({ ...due, taken_at: DateTime.add(at, { seconds }) })
const final: ProviderPromises = { readByOperationId: "yes", lateRequests: "refused", notFoundIsFinalAfter: "1 minute" }

describe("Promises that cannot be safe together", () => {
  const refused: ReadonlyArray<readonly [promises: ProviderPromises, sentence: RegExp]> = [
    ...[0, -1, Number.NaN, "Infinity", "soon", null].flatMap((wrong) =>
      (["notFoundIsFinalAfter", "reversibleFor", "keys"] as const).map((member) =>
        [{ ...final, [member]: wrong }, /^each duration of promises must be finite and longer than 0$/] as const
      )
    ),
    [{ ...final, readByOperationId: { lag: 0 } }, /^each duration/],
    [{ reversibleFor: { byType: { transfer: "60 days", payment: 0 } } }, /^each duration/],
    [{ ...final, lateRequests: "accepted" }, /^notFoundIsFinalAfter requires lateRequests:/],
    [{ readByOperationId: "yes", notFoundIsFinalAfter: "1 minute" }, /^notFoundIsFinalAfter requires lateRequests:/],
    [{ ...final, readByOperationId: "no" }, /^notFoundIsFinalAfter requires readByOperationId:/],
    [{ lateRequests: "refused", notFoundIsFinalAfter: 1 }, /^notFoundIsFinalAfter requires readByOperationId:/],
    [{ ...final, readByOperationId: "indirectly" }, /requires lateRequests "refused_as_stated"$/],
    [{ ...final, readByOperationId: { lag: "61 seconds" } }, /must not be shorter than the lag/],
    [{ ...final, keys: "6 minutes" }, /before keys do/]
  ]
  for (const [promises, sentence] of refused) {
    it(`are refused: ${JSON.stringify(promises)}`, () =>
      assert.throws(() => checkPromises(promises, { account: "live 1" }), sentence))
  }

  it("are refused without an account if \"not found\" is final, or a fence: another account does not have the order", () => {
    const fenced: ProviderPromises = { keys: "for_ever", readByOperationId: "yes" }
    for (const account of [undefined, "", " "]) {
      assert.throws(() => checkPromises(final, { account }), /^notFoundIsFinalAfter requires account:/)
      assert.throws(() => checkPromises(fenced, { account, fence: {} }), /^fence requires account:/)
      checkPromises({ ...final, readByOperationId: "indirectly", lateRequests: "refused_as_stated" }, { account })
      checkPromises(fenced, { account })
    }
  })

  it("are refused beside a fence, unless keys live for ever and a request may arrive at any time", () => {
    const fenced: ProviderPromises = { keys: "for_ever", readByOperationId: "yes" }
    const declared = { account: "live 1", fence: {} }
    checkPromises(fenced, declared)
    const others: ReadonlyArray<readonly [ProviderPromises, RegExp]> = [
      [{ keys: "1 day" }, /requires keys/],
      [{ keys: "none" }, /requires keys/],
      [{ readByOperationId: "no" }, /requires readByOperationId/],
      [{ readByOperationId: "indirectly" }, /requires readByOperationId/],
      [{ readByOperationId: { lag: "1 hour" } }, /requires readByOperationId/],
      [{ lateRequests: "refused" }, /requires lateRequests/]
    ]
    for (const [other, sentence] of others) {
      checkPromises({ ...fenced, ...other }, {})
      assert.throws(() => checkPromises({ ...fenced, ...other }, declared), sentence)
    }
  })

  it("are no others", () => {
    const safe: ReadonlyArray<ProviderPromises> = [
      {},
      { readByOperationId: { lag: "1 hour" }, keys: "1 day", reversibleFor: "60 days" },
      { reversibleFor: { byType: { payment: "60 days" } } },
      final,
      { ...final, lateRequests: { header: "Valid-Until" } },
      { ...final, readByOperationId: { lag: "1 minute" }, keys: "361 seconds" },
      { ...final, readByOperationId: "indirectly", lateRequests: "refused_as_stated" }
    ]
    for (const promises of safe) checkPromises(promises, { account: "live 1" })
  })
})

describe("\"Not found\"", () => {
  it("is final only in a read that began the declared time after send_before, by the clock of the database", () => {
    assert.isFalse(isFinalNotFound(final, readAfter(60), null))
    assert.isTrue(isFinalNotFound(final, readAfter(60.001), null))
    assert.isFalse(isFinalNotFound(final, { ...readAfter(61), operation: { send_before: null } }, null))
  })

  it("is never final without promises, or with those of a provider that takes late requests", () => {
    for (const promises of [{}, { ...final, lateRequests: "accepted" }] as const) {
      assert.isNull(notFoundIsFinalFrom(promises, due, at))
    }
  })

  it("counts from the instant that the provider states, and never before send_before", () => {
    const stated: ProviderPromises = { ...final, lateRequests: "refused_as_stated" }
    assert.isNull(notFoundIsFinalFrom(stated, due, null))
    fc.assert(fc.property(fc.integer({ min: -100, max: 100 }), (minutes) => {
      const from = notFoundIsFinalFrom(stated, due, DateTime.add(at, { minutes }))
      assert.deepStrictEqual(from, DateTime.add(at, { minutes: Math.max(0, minutes + 1) }))
    }))
  })

  it("proves nothing once the provider may have forgotten the key, counted from the acceptance", () => {
    const promises: ProviderPromises = { ...final, keys: "1 hour" }
    assert.isTrue(isFinalNotFound(promises, readAfter(3569.999), null))
    assert.isFalse(isFinalNotFound(promises, readAfter(3570), null))
    assert.isTrue(isFinalNotFound({ ...promises, keys: "for_ever" }, readAfter(3570), null))
    // An indirect read does not look for the key.
    const consent = { readByOperationId: "indirectly", lateRequests: "refused_as_stated" } as const
    const due = readAfter(3570)
    assert.isTrue(isFinalNotFound({ ...promises, ...consent }, due, due.operation.send_before))
  })
})

describe("A payment that the provider does not find", () => {
  const notFound = StatusAnswer.NotFound({ names: namesNothing, evidence })
  type Facts = Partial<Parameters<typeof decideAfterRead>[0]>
  const questionAfter = (promises: ProviderPromises, seconds: number, facts: Facts = {}, answer = notFound) => {
    const operation = operationOf({ send_before: at })
    const situation = { state: "indeterminate", acknowledged: false, fence_started_at: null } as const
    const read = { ...readAfter(seconds), operation, ...situation, ...facts }
    const decision = decideAfterRead(read, answer, { promises: { question: () => "Ask?", ...promises } })
    return decision._tag === "Postpone" ? decision.question : decision._tag
  }

  it("is asked about once no later read can prove that it was never received", () => {
    const never: ReadonlyArray<readonly [string, ProviderPromises, Facts?]> = [
      ["no promise", { readByOperationId: "yes" }],
      ["late requests", { ...final, lateRequests: "accepted" }],
      ["no end", { readByOperationId: "yes", lateRequests: "refused" }],
      ["an acknowledgement", { ...final, keys: "for_ever" }, { acknowledged: true }],
      ["a held one", { readByOperationId: "yes" }, { state: "accepted" }]
    ]
    for (const [why, promises, facts] of never) {
      assert.isUndefined(questionAfter(promises, 0, facts), `${why}: it may still be sent`)
      assert.strictEqual(questionAfter(promises, 0.001, facts), "Ask?", why)
    }
    const lag: ProviderPromises = { readByOperationId: { lag: "1 hour" } }
    assert.isUndefined(questionAfter(lag, 3600))
    assert.strictEqual(questionAfter(lag, 3600.001), "Ask?")
    const forgets: ProviderPromises = { ...final, keys: "1 hour" }
    assert.strictEqual(questionAfter(forgets, 3569.999), "Record")
    assert.strictEqual(questionAfter(forgets, 3570), "Ask?")
    assert.strictEqual(questionAfter(final, -1, { operation: operationOf({ send_before: null }) }), "Ask?")
  })

  it("is not asked about while a later read may prove it, or if a proxy may have answered", () => {
    const stated: ProviderPromises = { ...final, lateRequests: "refused_as_stated" }
    for (const promises of [final, stated]) assert.isUndefined(questionAfter(promises, 60))
    assert.isUndefined(questionAfter({ readByOperationId: "yes" }, 60, {}, { ...notFound, evidence: null }))
  })
})

/** An operation whose answer was lost, read once at `seconds` by a bank with these promises. */
const readOnce = Effect.fnUntraced(function*(promises: ProviderPromises, script: Script = {}) {
  const notes: Array<{ readonly answer?: string; readonly question?: string | null; readonly review?: boolean }> = []
  const world = yield* makeWorld({
    submit: () => Effect.fail(new Uncertain({ reason: "the answer was lost" })),
    promises,
    queue: ({ postpone }) => ({
      postpone: (id, revision, next) => {
        notes.push(next)
        return postpone(id, revision, next)
      }
    }),
    ...script
  })
  const id = yield* world.acceptOne
  yield* world.work
  const due_in = Duration.millis(world.recordOf(id).due_at! - (yield* Clock.currentTimeMillis))
  yield* TestClock.adjust(due_in)
  yield* world.reconcile
  return { world, id, due_in, note: notes[0], state: world.recordOf(id).operation }
})

describe("A status read without the provider's reference", () => {
  it.effect("is not made if the provider cannot be asked by the operation's id: a person gets the question", () =>
    Effect.gen(function*() {
      const { id, note, state, world } = yield* readOnce({ question: (operation) => `Payment ${operation.id}?` })
      assert.isEmpty(world.reads)
      assert.deepInclude(note, { question: `Payment ${id}?`, review: true })
      assert.deepInclude(state, { state: "indeterminate", under_review: true })
      const other = yield* readOnce({})
      assert.strictEqual(
        other.note?.question,
        `Did you receive a request with the key ${other.id}? Have you carried it out, or can you still carry it out?`
      )
    }))

  it.effect("is made later by the reference", () =>
    Effect.gen(function*() {
      const { state, world } = yield* readOnce({}, {
        submit: () =>
          Effect.succeed(SubmissionAnswer.Acknowledged({ names: { reference, operation_id: null }, evidence })),
        read: () =>
          Effect.succeed(
            StatusAnswer.Proven({ state: "succeeded", names: { reference, operation_id: null }, evidence })
          )
      })
      assert.lengthOf(world.reads, 1)
      assert.strictEqual(state.state, "succeeded")
    }))

  it.effect("waits until the provider finds its payments", () =>
    Effect.gen(function*() {
      const { due_in, world } = yield* readOnce({ readByOperationId: { lag: "1 hour" } })
      assert.strictEqual(Duration.format(due_in), "1h")
      assert.lengthOf(world.reads, 1)
      assert.isBelow(Duration.toMillis((yield* readOnce(findsById)).due_in), 2000)
    }))

  const proven = (named: ProviderReference | null) =>
    Effect.succeed(
      StatusAnswer.Proven({ state: "succeeded", names: { reference: named, operation_id: null }, evidence })
    )

  it.effect("gets the payload if the adapter needs it to compare what the provider echoes", () =>
    Effect.gen(function*() {
      const { state, world } = yield* readOnce(findsById, { readsNeedPayload: true, read: () => proven(null) })
      assert.deepStrictEqual(world.reads.map(({ payload }) => payload), [world.attempts[0]!.payload])
      assert.deepInclude(state, { state: "succeeded" })
    }))

  it.effect("gets the payload if it is indirect, and proves a result only with the provider's reference", () =>
    Effect.gen(function*() {
      const promises: ProviderPromises = { readByOperationId: "indirectly" }
      const without = yield* readOnce(promises, { read: () => proven(null) })
      assert.deepStrictEqual(without.world.reads.map(({ payload }) => payload), [without.world.attempts[0]!.payload])
      assert.deepInclude(without.state, { state: "indeterminate", under_review: true })
      assert.deepInclude((yield* readOnce(promises, { read: () => proven(reference) })).state, { state: "succeeded" })
      const direct = yield* readOnce(findsById, { read: () => proven(null) })
      assert.deepStrictEqual(direct.world.reads.map(({ payload }) => payload), [undefined])
      assert.deepInclude(direct.state, { state: "succeeded" })
    }))

  it.effect("that finds an order without a result or reference asks a person the adapter's question", () =>
    Effect.gen(function*() {
      const ordered = StatusAnswer.NotProven({
        reason: "ordered",
        detail: "the consent is consumed",
        question: "Which payment has the consent 7?"
      })
      const { note, state } = yield* readOnce({ readByOperationId: "indirectly" }, {
        read: () => Effect.succeed(ordered)
      })
      assert.deepInclude(note, {
        answer: "ordered: the consent is consumed",
        question: "Which payment has the consent 7?"
      })
      assert.deepInclude(state, { state: "indeterminate", under_review: true })
      const other = yield* readOnce(findsById, { read: () => Effect.succeed(unclear) })
      assert.notProperty(other.note, "question")
      assert.isFalse(other.state.under_review)
    }))

  it.effect("that is \"not found\" of a wrong path is told from the provider's own", () =>
    Effect.gen(function*() {
      const noteOf = (answer: StatusAnswer) =>
        Effect.map(readOnce({ readByOperationId: "yes" }, { read: () => Effect.succeed(answer) }), ({ note }) => note)
      assert.match((yield* noteOf(notFound))!.answer!, /^not found, which proves nothing: the adapter does not declare/)
      assert.strictEqual((yield* noteOf(neverReceived))!.answer, "not found")
    }))
})

describe("The evidence of a success", () => {
  it.effect("says for how long the success may be reversed", () =>
    Effect.gen(function*() {
      const { id, world } = yield* readOnce({ ...findsById, reversibleFor: "60 days" }, {
        read: () =>
          Effect.succeed(
            StatusAnswer.Proven({ state: "succeeded", names: { reference, operation_id: null }, evidence })
          )
      })
      assert.deepInclude(yield* world.evidenceOf(id), { reversible_for: "60d" })
    }))
})
