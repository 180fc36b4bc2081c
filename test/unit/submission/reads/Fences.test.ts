/**
 * When a fence begins, what it needs before each request, and what follows from its answer. The ledger is in memory, and the bank follows a
 * script.
 */
import { assert } from "@effect/vitest"
import { Clock, DateTime, Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import type { ProviderReference } from "../../../../src/domain/Submission.ts"
import {
  FenceAnswer,
  namesNothing,
  NextRequest,
  SendDeadline,
  StatusAnswer
} from "../../../../src/submission/providers/ProviderAdapter.ts"
import { fenceLease, fenceTimeout, fenceWithin } from "../../../../src/submission/reads/fences.ts"
import { defaultPolicy } from "../../../../src/submission/SubmissionPolicy.ts"
import { outcome } from "../../../fixtures/ledger/Ledger.ts"
import { evidenceOf } from "../../../fixtures/OperatorEvidence.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import {
  evidence,
  neverReceived,
  notFound,
  pending,
  reference,
  succeeded,
  unclear
} from "../../../fixtures/submission/World.ts"

const names = { reference, operation_id: null }
const waits = FenceAnswer.NotProven({ reason: "unclear", detail: "the order of the fence is not cancelled yet" })
const occupied = FenceAnswer.Occupied({
  names: { reference: "fence-1" as ProviderReference, operation_id: null },
  evidence: { status: "canceled" }
})

/** An operation whose request was lost, at a bank that does not find it. */
const lost = [w.answers(w.reset), w.finds(neverReceived), w.accept(), w.work()]
/** The bank fences such an operation, with these answers. */
const fencedBy = (...answers: ReadonlyArray<w.Found<FenceAnswer>>) => [
  w.given({ promises: { keys: "for_ever", readByOperationId: "yes" } }),
  w.fences(...answers),
  lost
]

/** Lets time pass until the next read is due, and runs it. */
const next: w.Act = (scene) => Effect.andThen(w.untilDue(scene), scene.world.reconcile)
/** Reads until a fence has begun. */
const begun: w.Act = (scene) =>
  Effect.gen(function*() {
    for (let n = 0; n < 20 && scene.world.recordOf(scene.ids[0]!).fence_started_at === null; n++) yield* next(scene)
  })
const hour = [w.pass("1 hour"), next, next, next]
/** A person says that the bank answered then how the payment ended. */
const end = ({ ids, world }: w.Scene, to: "succeeded" | "failed", asked: DateTime.Utc) =>
  Effect.flatMap(
    world.show(ids[0]!),
    ({ id, revision }) =>
      world.ledger.transition(id, revision, outcome(to), { by: "operator", ...evidenceOf({ created_at: asked }) })
  )

const questions: Array<string | null | undefined> = []
const sentAt: Array<number> = []
/** How much later it is when the answer to a take arrives, by the monotonic clock. */
let late = Duration.zero
let passed = 0n

const accounts = [["bank.example", "bank.example 4711"], ["bank.example 4711", "bank.example"]].flatMap((
  [sent, now]
) => [
  { sent: sent!, now: now!, where: "at a bank with fences", lost: fencedBy(occupied) },
  { sent: sent!, now: now!, where: "where \"not found\" is final", lost }
])

w.tell("A fence", {
  "begins after \"not found\", once clocks agree that send_before has passed, and is recorded before it is sent": [
    [fencedBy(occupied), begun],
    w.check(({ ids, world }) => {
      const { fence_started_at, send_before } = world.recordOf(ids[0]!)
      assert.isAbove(fence_started_at!.epochMilliseconds, send_before!.epochMilliseconds + 5000)
    }),
    // Nothing is sent by the read that begins it, no person need ask, and no read by the key follows.
    [w.fenced(0), w.underReview(false), w.mark, next, w.readSince(0), w.failed("provider_never_received")],
    w.check(({ fences, ids, world }) =>
      assert.deepStrictEqual(fences, [world.recordOf(ids[0]!).fence_started_at!.epochMilliseconds])
    ),
    w.evidenceHas({ by: "fence", answer: { status: "canceled" } })
  ],
  "is repeated in place of the status read while its own order is not cancelled": [
    [fencedBy(waits, waits, occupied), begun, w.mark, next, w.is("indeterminate"), next, w.is("indeterminate")],
    [next, w.is("failed"), w.readSince(0)],
    w.check(({ fences }) => assert.strictEqual(new Set(fences).size, 1, "the beginning is recorded once"))
  ],
  "begins while an older read is under way, whose answer may be its order and is not recorded": [
    fencedBy(waits),
    w.finds((operation, { world }) =>
      Effect.map(
        world.queue.mayFence({ operation, revision: world.recordOf(operation.id).operation.revision }),
        (begun) => begun === null ? unclear : pending
      )
    ),
    // Its order is cancelled after all.
    [begun, w.stored({ reference: null, acknowledged: false }), w.is("indeterminate"), next, w.fenced(1)]
  ],
  "that stays without proof asks a person once it is old, and is repeated": [
    w.store((queue) => ({
      postpone: (id, revision, next) => {
        questions.push(next.question)
        return queue.postpone(id, revision, next)
      }
    })),
    [fencedBy(waits), begun, next, w.check(() => assert.isUndefined(questions.at(-1))), w.pass("15 minutes")],
    [next, w.check(({ ids }) => assert.include(questions.at(-1), ids[0]!)), w.fenced(2), next, w.fenced(3)]
  ],
  "that finds the first order is followed by a status read with its reference": [
    fencedBy(FenceAnswer.Known(names)),
    w.finds((_, { fences }) =>
      Effect.succeed(fences.length > 0 ? StatusAnswer.Proven({ state: "succeeded", names, evidence }) : neverReceived)
    ),
    [begun, next, w.stored({ reference, acknowledged: true }), w.is("indeterminate"), next, w.is("succeeded")],
    w.check(({ world }) => assert.strictEqual(world.reads.at(-1)!.reference, reference))
  ],
  "is neither sent nor followed by a read while the settings name another account, and a person is asked": [
    [w.account("first"), fencedBy(occupied), w.account("second"), next, w.read(0), w.account("first"), begun, w.mark],
    [w.account("second"), next, next, next, w.fenced(0), w.readSince(0), w.underReview(true), w.account("first")],
    [next, w.failed("provider_never_received")]
  ],
  ...w.each(
    accounts,
    ({ now, sent, where }) =>
      `does not begin, and no "not found" is final, but reads go on, once ${sent} has become ${now}, ${where}`,
    ({ lost, now, sent }) => [
      [w.account(sent), lost, w.finds(neverReceived, neverReceived, neverReceived, neverReceived, succeeded)],
      [w.account(now), [1, 2, 3, 4].map(() => [w.pass("1 hour"), next, w.is("indeterminate")])],
      [next, w.is("succeeded"), w.fenced(0)]
    ]
  ),
  "is not read at an account whose number begins as that of its own": [
    [w.account("bank.example 4711"), fencedBy(waits), w.account("bank.example 47"), next, w.read(0)]
  ],
  "need not begin where \"not found\" is final, but for an operation whose account is not known": [
    [lost, w.account("first"), w.pass("1 hour"), next, w.is("indeterminate")],
    [w.account(undefined), next, w.is("failed")]
  ],
  "waits for a permit of its own before each request, also where the limit is one request": [
    w.given({ limit: { requests: 1, interval: "1 second" } }),
    fencedBy(Effect.gen(function*() {
      for (let request = 1; request <= 4; request++) {
        if (request > 1) assert.isTrue(yield* yield* NextRequest)
        sentAt.push(yield* Clock.currentTimeMillis)
      }
      return occupied
    })),
    w.act((scene) =>
      Effect.gen(function*() {
        for (let n = 0; n < 20 && sentAt.length === 0; n++) {
          yield* w.untilDue(scene)
          const reading = yield* Effect.forkChild(scene.world.reconcile)
          for (let millis = 0; millis < 10_000; millis += 50) yield* TestClock.adjust("50 millis")
          yield* Fiber.join(reading)
        }
        assert.lengthOf(sentAt, 4)
        for (const [n, at] of sentAt.slice(1).entries()) assert.isAtLeast(at - sentAt[n]!, 1000)
      })
    ),
    w.is("failed")
  ],
  "leaves only while its lease covers it, and a person cannot end the operation until then": [
    fencedBy(({ id }, scene) =>
      Effect.gen(function*() {
        const leavesUntil = (yield* SendDeadline)!
        assert.isAbove(leavesUntil, yield* Clock.currentTimeMillis)
        const lasts = Duration.toMillis(fenceTimeout(defaultPolicy))
        assert.isAtMost(leavesUntil + lasts, scene.world.recordOf(id).due_at!)
        // By a clock that is ahead, which a failure does not permit.
        const error = yield* Effect.flip(end(scene, "succeeded", DateTime.add(yield* DateTime.now, { seconds: 59 })))
        assert.match(error.message, /may be under way until/)
        return occupied
      })
    ),
    [begun, next, w.evidenceHas({ by: "fence" })]
  ],
  "is followed by no failure by an answer to a person from before it, however often it ended without proof": [
    [fencedBy(waits), begun],
    w.act((scene) =>
      Effect.gen(function*() {
        for (const sent of [1, 2, 3]) {
          // By a clock that is a minute ahead.
          const asked = DateTime.add(yield* DateTime.now, { minutes: 1 })
          yield* next(scene)
          assert.lengthOf(scene.fences, sent)
          yield* TestClock.adjust(fenceLease(defaultPolicy))
          const { message } = yield* Effect.flip(end(scene, "failed", asked))
          assert.match(message, /Cancel the order that waits under this key/)
          yield* TestClock.adjust("1 minute")
        }
        assert.strictEqual((yield* end(scene, "failed", yield* DateTime.now)).state, "failed")
      })
    )
  ],
  ...w.each(
    [
      ["by a reader that took the operation too long ago", "takeReads", fenceWithin(defaultPolicy)],
      ["by an authorization that is as old as storeTimeout", "mayFence", defaultPolicy.storeTimeout]
    ] as const,
    ([how]) => `is not sent ${how}`,
    ([, statement, wait]) => [
      w.given({
        clock: ({ monotonicTimeNanos }) => ({
          monotonicTimeNanos: Effect.map(monotonicTimeNanos, (nanos) => nanos + passed)
        })
      }),
      w.afterwards(statement, () =>
        Effect.sync(() => {
          passed += Duration.toNanosUnsafe(late)
        })),
      [fencedBy(waits), begun, w.check(() => late = wait), next, w.fenced(0)],
      [w.check(() => late = Duration.zero), next, w.fenced(1)]
    ]
  ),
  "never begins after the \"not found\" of a proxy": [
    [fencedBy(waits), w.finds(notFound), hour, w.stored({ fence_started_at: null }), w.fenced(0)]
  ],
  "never begins for a payload that no order can fence": [
    [fencedBy(waits), w.given({ fence: () => null }), hour, w.stored({ fence_started_at: null })]
  ],
  "never begins after an answer about another operation": [
    [fencedBy(waits), w.finds(StatusAnswer.NotFound({ names: { ...namesNothing, operation_id: "other" }, evidence }))],
    [hour, w.stored({ fence_started_at: null }), w.fenced(0)]
  ],
  "is not sent without a grant that allows to send, and neither is the operation read by its key": [
    [fencedBy(waits), begun, w.mark, w.revoke],
    w.act(({ world }) => {
      const { client_id, provider, resource_owner, subject } = world.grant
      return world.issue({ client_id, provider, resource_owner, subject, scopes: ["payments:write" as never] })
    }),
    [hour, w.fenced(0), w.readSince(0)]
  ],
  "is not sent while the provider is paused": [
    [fencedBy(waits), begun, w.answers(w.notSent("the key is wrong", { isLocal: true })), w.accept(), w.work(), hour],
    // No provider gave an answer.
    [w.fenced(0), w.logged("Status reads of a provider", 0)]
  ],
  "is not sent while the circuit of the submissions is open": [
    [fencedBy(waits), begun, w.untilDue, [1, 2, 3, 4].map(() => [w.accept(), w.work()]), w.reconcile(), w.fenced(0)],
    [next, w.fenced(1)]
  ]
})
