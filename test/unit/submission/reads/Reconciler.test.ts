/**
 * The reconciler reads statuses until an outcome is proven, and never sends. The tests run it against a scripted
 * provider on the test's clock.
 */
import { assert } from "@effect/vitest"
import { Clock, Duration, Effect } from "effect"
import { NextRequest, StatusAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { Reconciler } from "../../../../src/submission/reads/Reconciler.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import {
  bank,
  neverReceived,
  notFound,
  pending,
  succeeded,
  unclear,
  unreachable
} from "../../../fixtures/submission/World.ts"

const start = w.start(Reconciler.layer)
const milli = Duration.millis(1)

const failures = [
  ["no connection", unreachable],
  ["silence", Effect.never],
  ["a defect", Effect.die(new Error("Bearer hunter2"))],
  ["an exception", Effect.sync(() => JSON.parse("{"))]
] as const

let pages = 0

w.tell("The reconciler", {
  "reads until the outcome is proven, and never after that": [
    // Polling every second would take too long.
    [w.policy({ pollInterval: Duration.minutes(2) }), w.finds(notFound, unreachable, pending, unclear, succeeded)],
    [w.accept(), w.move("indeterminate"), start, w.pass("1 day"), w.read(5), w.sent(0)],
    w.went("submitting indeterminate submitted succeeded")
  ],
  ...w.each(
    failures,
    ([name]) => `makes a submitted operation indeterminate after ${name}`,
    ([, answer]) => [
      [w.finds(answer), w.accept(), w.move("submitted"), w.begin("reconcile"), w.pass("readTimeout"), w.join],
      w.is("indeterminate"),
      w.act(({ ids, world }) =>
        Effect.map(world.evidenceOf(ids[0]!), (evidence) => assert.notMatch(JSON.stringify(evidence), /hunter2/))
      )
    ]
  ),
  "leaves a submitted operation as it is if the time ends after a first answer, because that is no network failure": [
    [w.finds(Effect.andThen(Effect.flatten(NextRequest), Effect.never)), w.accept(), w.move("submitted")],
    [w.begin("reconcile"), w.pass("readTimeout"), w.join, w.is("submitted")]
  ],
  "gives all pages of a read one readTimeout, within its lease, so that no second read begins meanwhile": [
    w.finds(Effect.gen(function*() {
      for (let page = 1; page <= 8; page++) {
        assert.isTrue(page === 1 || (yield* yield* NextRequest))
        pages = page
        yield* Effect.sleep("4 seconds")
      }
      return pending
    })),
    [
      w.accept(),
      w.move("submitted"),
      w.begin("reconcile"),
      w.passUntil("readTimeout", milli),
      w.reconcile(0),
      w.read(1)
    ],
    // Under the lease of the first read.
    w.act(({ ids, world }) =>
      Effect.map(Clock.currentTimeMillis, (now) => assert.isAbove(world.recordOf(ids[0]!).due_at!, now))
    ),
    [w.pass(milli), w.join, w.pass("20 seconds"), w.is("submitted")],
    w.check(() => assert.strictEqual(pages, 4, "the time has ended"))
  ],
  "changes nothing when the circuit blocks the read": [
    // The others open the circuit. The first operation is read last, because it is due last.
    [w.finds(unreachable), [1, 2, 3, 4, 5, 6].map(() => [w.accept(), w.move("submitted")]), w.due(1000)],
    [w.reconcile(), w.pass("990 millis"), w.read(5), w.due(990), w.reconcileUpTo(1), w.read(5)],
    w.went("submitting submitted", 0),
    w.check(({ ids, world }) => assert.isAbove(world.recordOf(ids[0]!).due_at!, 990))
  ],
  "reads at growing intervals up to the longest, and never stops": [
    [w.policy({ pollInterval: Duration.seconds(20) }), w.accept(), w.move("indeterminate"), start, w.pass("2 days")],
    w.check(({ world }) => {
      const { first, factor, jitter, longest } = world.policy.readSchedule
      const pauses = world.reads.slice(1).map(({ at }, n) => at - world.reads[n]!.at)
      const tolerance = Duration.toMillis(world.policy.pollInterval)
      for (const [n, pause] of pauses.entries()) {
        const pure = Math.min(Duration.toMillis(first) * factor ** (n + 1), Duration.toMillis(longest))
        assert.isAtLeast(pause, pure * (1 - jitter) - 1, `after read ${n + 1}`)
        assert.isAtMost(pause, pure * (1 + jitter) + tolerance, `after read ${n + 1}`)
      }
      assert.isAbove(pauses.length, 48)
    })
  ],
  "repeats a read that was interrupted by a stop, once the lease has passed": [
    [w.finds(Effect.never, succeeded), w.accept(), w.move("submitted"), start, w.settle, w.read(1), w.stop],
    [w.is("submitted"), start, w.pass("readTimeout"), w.pass("storeTimeout", 3), w.is("succeeded")]
  ]
})

/** Reads up to six operations, as many submitted ones and as many held ones. The first eight are submitted. */
const readsOf = (submitted: number, held: number) => [
  w.mark,
  w.reconcileUpTo(6, submitted + held),
  w.check(({ ids, marked, world }) => {
    const numbers = world.reads.slice(marked.read).map(({ id }) => ids.indexOf(id))
    assert.deepStrictEqual([numbers.filter((n) => n < 8).length, numbers.filter((n) => n >= 8).length], [
      submitted,
      held
    ])
  })
]

w.tell("An operation that was accepted before the database was replaced", {
  "shares the read limit with submitted operations, and each group uses what the other leaves": [
    [w.accept(8), w.work(), w.accept(8), w.failOver, w.pass("1 hour"), readsOf(3, 3), readsOf(3, 3), readsOf(2, 2)],
    w.pass("3 hours"),
    w.act(({ ids, world }) =>
      Effect.forEach(ids.slice(0, 8), (id) => world.ledger.transition(id, 3, { state: "succeeded" }, { by: "test" }))
    ),
    readsOf(0, 6)
  ],
  "is sent by no answer that the provider never received it: a person releases it": [
    [w.account("bank.example 4711"), w.finds(neverReceived), w.accept(), w.failOver, w.reconcile(), w.work(0)],
    [w.pass("rescueAfter"), w.pass("2 millis"), w.reconcile(), w.is("accepted"), w.underReview(true), w.work(0)],
    w.act(({ ids, world }) => world.queue.release(ids[0]!)),
    [w.work(1), w.is("submitted"), w.sent(1)]
  ]
})

w.tell("An operation that the provider does not find", {
  "stays indeterminate while the clock of the database was set forward, and that of the reader says so": [
    [w.answers(w.reset), w.finds(neverReceived), w.accept(), w.work(), w.skew(-7_200_000)],
    [w.pass("1 hour"), w.reconcile(), w.is("indeterminate")],
    [w.skew(0), w.pass("1 hour"), w.reconcile(), w.failed("provider_never_received")]
  ]
})

const wrongKey = StatusAnswer.NotProven({ reason: "unclear", detail: "the provider refused the credentials" })
const untyped = StatusAnswer.NotProven({ reason: "unclear", detail: undefined as never })
const [key, network] = [["WARN", wrongKey.detail], ["WARN", unreachable.detail]]
const usable = ["INFO", undefined]
const logged: ReadonlyArray<
  readonly [rule: string, pause: Duration.Input, answers: ReadonlyArray<StatusAnswer>, lines: ReadonlyArray<unknown>]
> = [
  ["are logged when they begin, and not with each read", "1 hour", [wrongKey, wrongKey, wrongKey], [key]],
  ["are logged when the detail changes", "1 hour", [wrongKey, unreachable, unreachable, wrongKey], [key, network, key]],
  ["end with a read that proves something, which is logged once", "1 hour", [wrongKey, pending, pending, wrongKey], [
    key,
    usable,
    key
  ]],
  ["do not stop the reconciler if the detail is no text", "1 hour", [untyped, untyped], [["WARN", "(undefined)"]]],
  ["do not begin or end with \"not found\"", "1 hour", [notFound, wrongKey, notFound, wrongKey], [key]],
  [
    "are logged at most every ten minutes if other reads prove something meanwhile",
    "1 minute",
    Array.from({ length: 8 }, () => [wrongKey, pending]).flat(),
    [key, usable, key, usable]
  ]
]

w.tell("Status reads without a usable answer", {
  ...w.each(logged, ([rule]) => rule, ([, pause, answers, expected]) => [
    [w.finds(...answers), w.accept(), w.move("indeterminate")],
    answers.map(() => [w.pass(pause), w.due(), w.reconcile()]),
    w.read(answers.length),
    w.check(({ ids, world }) => {
      const lines = world.logs.filter(({ message }) =>
        /^Status reads of a provider give (?:no usable answer|usable answers again)/.test(String(message))
      )
      for (const { annotations } of lines) assert.deepInclude(annotations, { operation_id: ids[0], provider: bank })
      assert.deepStrictEqual(lines.map(({ annotations, level }) => [level, annotations["detail"]]), expected)
    })
  ])
})
