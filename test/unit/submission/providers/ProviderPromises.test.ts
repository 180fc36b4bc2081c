/**
 * What follows from the promises of a provider: which are refused, when "not found" is final, which operations are read, and what a person is
 * asked. The tables are the rules of docs/providers.md.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime } from "effect"
import * as fc from "fast-check"
import type { ProviderReference } from "../../../../src/domain/Submission.ts"
import { namesNothing, StatusAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import {
  checkPromises,
  isFinalNotFound,
  notFoundIsFinalFrom,
  type ProviderPromises
} from "../../../../src/submission/providers/ProviderPromises.ts"
import { decideAfterRead } from "../../../../src/submission/reads/decideAfterRead.ts"
import { operationOf } from "../../../fixtures/submission/HttpProviderServer.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import { evidence, findsById, neverReceived, notFound, reference, unclear } from "../../../fixtures/submission/World.ts"

const at = DateTime.makeUnsafe("2026-01-01T00:00:30Z")
const due = {
  operation: { send_before: at },
  reference: null,
  created_at: DateTime.subtract(at, { seconds: 30 }),
  taken_at: at,
  askedAt: { wall: at.epochMilliseconds, monotonic: 0n }
}
/** By the clock of the database and that of the reader, which may differ. */
const readAfter = (seconds: number, byReader = seconds) => ({
  ...due,
  taken_at: DateTime.add(at, { seconds }),
  askedAt: { wall: at.epochMilliseconds + byReader * 1000, monotonic: 0n }
})
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

  it("are refused if a success may be reversed, and its reads need the payload, which its end has erased", () => {
    const reversible: ProviderPromises = { readByOperationId: "yes", reversibleFor: "3 days" }
    assert.throws(() => checkPromises(reversible, { readsNeedPayload: true }), /^reversibleFor requires reads without/)
    assert.throws(
      () => checkPromises({ ...reversible, readByOperationId: "indirectly" }, {}),
      /^reversibleFor requires/
    )
    checkPromises(reversible, { readsNeedPayload: false })
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
  it("is final only in a read that began the declared time after send_before, by both clocks", () => {
    assert.isFalse(isFinalNotFound(final, readAfter(60), null))
    assert.isTrue(isFinalNotFound(final, readAfter(60.001), null))
    assert.isFalse(isFinalNotFound(final, readAfter(3600, 60), null), "the clock of the database was set forward")
    assert.isFalse(isFinalNotFound(final, readAfter(60, 3600), null), "the clock of the reader was set forward")
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

  it("proves nothing once the provider may have forgotten the key, counted from when it was sent at the earliest", () => {
    const promises: ProviderPromises = { ...final, keys: "1 hour" }
    assert.isTrue(isFinalNotFound(promises, readAfter(3299.999), null))
    assert.isFalse(isFinalNotFound(promises, readAfter(3300), null))
    assert.isFalse(isFinalNotFound(promises, readAfter(3200, 3300), null), "the clock of the database was set back")
    assert.isFalse(isFinalNotFound(promises, readAfter(3300, 3200), null), "the clock of the reader was set back")
    const ahead = { created_at: DateTime.add(at, { hours: 1 }) }
    assert.isFalse(isFinalNotFound(promises, { ...readAfter(3300), ...ahead }, null), "the acceptance was too late")
    const early = { created_at: DateTime.subtract(at, { minutes: 10 }) }
    assert.isFalse(isFinalNotFound(promises, { ...readAfter(3000), ...early }, null), "the acceptance was long before")
    assert.isTrue(isFinalNotFound({ ...promises, keys: "for_ever" }, readAfter(3300), null))
    // An indirect read does not look for the key.
    const consent = { readByOperationId: "indirectly", lateRequests: "refused_as_stated" } as const
    const due = readAfter(3300)
    assert.isTrue(isFinalNotFound({ ...promises, ...consent }, due, due.operation.send_before))
  })
})

describe("A payment that the provider does not find", () => {
  const notFound = StatusAnswer.NotFound({ names: namesNothing, evidence })
  type Facts = Partial<Parameters<typeof decideAfterRead>[0]>
  const questionAfter = (promises: ProviderPromises, seconds: number, facts: Facts = {}, answer = notFound) => {
    const operation = operationOf({ send_before: at })
    const situation = { state: "indeterminate", acknowledged: false, fence_started_at: null, sent_as: null } as const
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
    assert.strictEqual(questionAfter(forgets, 3299.999), "Record")
    assert.strictEqual(questionAfter(forgets, 3300), "Ask?")
    assert.strictEqual(questionAfter(final, -1, { operation: operationOf({ send_before: null }) }), "Ask?")
  })

  it("is not asked about while a later read may prove it, or if a proxy may have answered", () => {
    const stated: ProviderPromises = { ...final, lateRequests: "refused_as_stated" }
    for (const promises of [final, stated]) assert.isUndefined(questionAfter(promises, 60))
    assert.isUndefined(questionAfter({ readByOperationId: "yes" }, 60, {}, { ...notFound, evidence: null }))
  })
})

const succeededAs = (reference: ProviderReference | null) =>
  StatusAnswer.Proven({ state: "succeeded", names: { reference, operation_id: null }, evidence })
const ordered = StatusAnswer.NotProven({
  reason: "ordered",
  detail: "the consent is consumed",
  question: "Which payment has the consent 7?"
})

/** What the ledger was told after the read. */
let note: { readonly answer?: string; readonly question?: string | null; readonly review?: boolean } | undefined

/** An operation whose answer was lost, read once by a bank with these promises. */
const readOnce = (promises: ProviderPromises, answer: StatusAnswer = unclear, submission: w.Submit = w.reset) => [
  w.check(() => note = undefined),
  w.store(({ postpone }) => ({
    postpone: (id, revision, next) => {
      note ??= next
      return postpone(id, revision, next)
    }
  })),
  [w.given({ promises }), w.answers(submission), w.finds(answer), w.accept(), w.work(), w.untilDue, w.reconcile()]
]
const noted = (members: object) => w.check(() => assert.deepInclude(note, members))
const question = (of: (id: string) => string) => w.check(({ ids }) => assert.strictEqual(note?.question, of(ids[0]!)))
const indeterminate = (underReview: boolean) => [w.is("indeterminate"), w.underReview(underReview)]
/** Whether the read had the payload. */
const hadPayload = (expected: boolean) =>
  w.check(({ world: { attempts, reads } }) =>
    assert.deepStrictEqual(reads.map(({ payload }) => payload), [expected ? attempts[0]!.payload : undefined])
  )
/** How long the read had to wait. */
const waited = (check: (millis: number) => void) => w.check(({ world }) => check(world.reads[0]!.at))

w.tell("A status read without the provider's reference", {
  "is not made if the provider cannot be asked by the operation's id: a person gets the question": [
    [readOnce({ question: (operation) => `Payment ${operation.id}?` }), w.read(0), question((id) => `Payment ${id}?`)],
    [noted({ review: true }), indeterminate(true)]
  ],
  "is not made without a question of the adapter either: a person gets the common one": [
    readOnce({}),
    question((id) =>
      `Did you receive a request with the key ${id}? Have you carried it out, or can you still carry it out?`
    )
  ],
  "is made later by the reference": [
    readOnce({}, succeededAs(reference), w.accepts),
    [w.read(1), w.is("succeeded")]
  ],
  "waits until the provider finds its payments": [
    [readOnce({ readByOperationId: { lag: "1 hour" } }), w.read(1), waited((at) => assert.strictEqual(at, 3_600_000))]
  ],
  "does not wait for a provider that finds its payments at once": [
    [readOnce(findsById), waited((at) => assert.isBelow(at, 2000))]
  ],
  "gets the payload if the adapter needs it to compare what the provider echoes": [
    [w.given({ readsNeedPayload: true }), readOnce(findsById, succeededAs(null)), hadPayload(true), w.is("succeeded")]
  ],
  "gets no payload else": [[readOnce(findsById, succeededAs(null)), hadPayload(false), w.is("succeeded")]],
  "gets the payload if it is indirect, and proves no result without the provider's reference": [
    [readOnce({ readByOperationId: "indirectly" }, succeededAs(null)), hadPayload(true), indeterminate(true)]
  ],
  "proves a result with the provider's reference, also if it is indirect": [
    [readOnce({ readByOperationId: "indirectly" }, succeededAs(reference)), w.is("succeeded")]
  ],
  "that finds an order without a result or reference asks a person the adapter's question": [
    [readOnce({ readByOperationId: "indirectly" }, ordered), indeterminate(true)],
    noted({ answer: "ordered: the consent is consumed", question: "Which payment has the consent 7?" })
  ],
  "that proves nothing asks no person": [
    [readOnce(findsById), w.check(() => assert.notProperty(note, "question")), indeterminate(false)]
  ],
  "that is \"not found\" of a wrong path is told from the provider's own": [
    readOnce({ readByOperationId: "yes" }, notFound),
    w.check(() => assert.match(note!.answer!, /^not found, which proves nothing: the adapter does not declare/))
  ],
  "that is the provider's own \"not found\" is told so": [
    [readOnce({ readByOperationId: "yes" }, neverReceived), noted({ answer: "not found" })]
  ]
})

w.tell("The evidence of a success", {
  "says for how long the success may be reversed": [
    readOnce({ ...findsById, reversibleFor: "60 days" }, succeededAs(reference)),
    w.evidenceHas({ reversible_for: "60d" })
  ]
})
