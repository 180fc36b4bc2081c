/**
 * The worker sends an accepted operation at most once, and records how that ended. The tests run it against a scripted
 * provider on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit } from "effect"
import { AuthorizationRevoked, UnsafeDatabase } from "../../../../src/domain/Submission.ts"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import type { SubmissionAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import { makeWorld, reference } from "../../../fixtures/submission/World.ts"

const uncertainties = [
  ["an uncertain failure", w.reset, /^the connection was reset$/],
  ["a defect", Effect.die(new TypeError("token=hunter2")), /^a defect: TypeError$/],
  ["a defect beside proof that nothing was sent", Effect.ensuring(w.refused, Effect.die("hunter2")), /^a defect: /],
  ["silence", Effect.never, /^the provider did not answer in time$/],
  ["silence that cannot be interrupted", Effect.uninterruptible(Effect.never), /^the provider did not answer in time$/],
  ["an invalid answer", Effect.succeed({} as SubmissionAnswer), /./],
  ["nothing", Effect.succeed(undefined as never), /./],
  ["an error of another kind", Effect.fail(new Error("hunter2") as never), /an error of an unknown kind$/],
  [
    "an error with the tag of a circuit",
    Effect.fail({ _tag: "CircuitBreakerError", reason: {} } as never),
    /unknown kind$/
  ],
  ["an error with the tag of a revocation", Effect.fail(new AuthorizationRevoked() as never), /unknown kind$/],
  ["an interruption of its own", Effect.interrupt, /^the worker was stopped while it was sending$/]
] as const

w.tell("An accepted operation", {
  "is sent once with its bound payload, and its acknowledgement is recorded": [
    [w.accept(), w.work(1), w.sent(1), w.went("submitting submitted"), w.stored({ reference })],
    [w.evidence({ by: "submission", answer: { status: "pending" } })],
    w.check(({ world }) => assert.deepStrictEqual(world.attempts[0]!.payload, { amount: "10.00" })),
    // It is never sent again.
    [w.pass("1 day"), w.work(0), w.pass("1 day"), w.work(0), w.pass("1 day"), w.work(0), w.sent(1)]
  ],
  ...w.each(
    uncertainties,
    ([name]) => `is indeterminate after ${name}, and is not sent again`,
    ([, answer, reason]) => [
      [w.answers(answer), w.accept(), w.workFor("attemptTimeout"), w.went("submitting indeterminate")],
      w.because(reason),
      [w.pass("1 day"), w.rescue(), w.work(0), w.sent(1)]
    ]
  )
})

w.tell("An operation that provably was not sent", {
  "is retried until an attempt sends something, which is the last attempt": [
    [w.answers(w.refused, w.refused, w.refused, w.accepts), w.accept(), w.workFor("sendWithin"), w.sent(4)],
    [w.answers(w.refused, w.refused, w.refused, w.reset), w.accept(), w.workFor("sendWithin"), w.sent(8)],
    [w.went("submitting submitted", 0), w.went("submitting indeterminate", 1)]
  ],
  "is retried after growing pauses until the send deadline, and then fails": [
    [w.noCircuit, w.answers(w.refused), w.accept(), w.workFor("sendWithin"), w.went("submitting failed")],
    w.failed("provider_unreachable"),
    w.check(({ world }) => {
      const times = world.attempts.map(({ at }) => at)
      assert.isBelow(times.at(-1)!, Duration.toMillis(world.policy.sendWithin))
      assert.isAtLeast(times.length, 6)
      // Doubling from 200 ms to 5 s, plus or minus half.
      for (const [n, at] of times.slice(1).entries()) {
        const pure = Math.min(200 * 2 ** n, 5000)
        assert.closeTo(at - times[n]!, pure, pure / 2, `after attempt ${n + 1}`)
      }
    })
  ],
  "logs one line for each cause, and how many attempts failed once the provider answers again": [
    w.noCircuit,
    w.inTurn("refused", "refused", "refused", "no route", "refused", "refused", null, null, "refused", null),
    [w.accept(2), w.workFor("sendWithin"), w.accept(), w.workFor("sendWithin")],
    w.check(({ world }) => {
      const unreachable = (reason: string) => ["WARN", "Could not reach the provider: nothing was sent", reason]
      const answers = (failed: number) => ["INFO", "The provider answers again: further attempts reach it", failed]
      assert.deepStrictEqual(
        world.logs.map(({ annotations: { failed_attempts, reason }, level, message }) => [
          level,
          message,
          reason ?? failed_attempts
        ]),
        [...["refused", "no route", "refused"].map(unreachable), answers(6), unreachable("refused"), answers(1)]
      )
    })
  ],
  "does not get more time when the wall clock is set back": [
    [w.policy({ sendWithin: Duration.seconds(4) }), w.noCircuit, w.answers(w.refused), w.accept(), w.begin()],
    [w.pass("2 seconds"), w.skew(-4000), w.pass("2 seconds"), w.is("failed"), w.join]
  ],
  "does not get more time when the monotonic clock stops, as it does while a machine sleeps": [
    w.given({ clock: () => ({ monotonicTimeNanos: Effect.succeed(0n), monotonicTimeNanosUnsafe: () => 0n }) }),
    [w.policy({ sendWithin: Duration.seconds(4) }), w.noCircuit, w.answers(w.refused), w.accept()],
    [w.workFor("sendWithin"), w.is("failed")],
    w.check(({ world }) => assert.isBelow(world.attempts.at(-1)!.at, 4000))
  ],
  "is returned without an attempt when the claim itself took too long": [
    w.policy({
      sendWithin: Duration.seconds(3),
      attemptTimeout: Duration.seconds(1),
      rescueAfter: Duration.seconds(9)
    }),
    [w.lateAnswer("claim", "4 seconds"), w.accept(), w.workFor("5 seconds"), w.sent(0)],
    w.returned("it was too late to send")
  ],
  "fails without an attempt when its payload cannot be read": [
    [w.accept(), w.alter({ payload: null }), w.work(), w.failed("payload_unreadable"), w.sent(0)]
  ]
})

w.tell("A claim", {
  "whose commit was not acknowledged is never sent, and a rescue makes it indeterminate": [
    [w.lostAnswer("claim"), w.accept(), w.work(0), w.is("submitting"), w.pass("rescueAfter"), w.rescue(), w.sent(0)],
    w.is("indeterminate")
  ],
  "that the store answers only after it is stale is never sent": [
    w.store((queue) => ({
      claim: (...args) => Effect.tap(queue.claim(...args), Effect.uninterruptible(Effect.sleep("100 seconds")))
    })),
    [w.accept(), w.workFor("200 seconds", 0), w.sent(0), w.is("submitting")]
  ]
})

w.tell("A worker", {
  "refuses to start on a database that could lose commits in a crash": [
    [w.store({ prepare: Effect.fail(new UnsafeDatabase({ setting: "fsync" })) }), w.accept()],
    w.act(({ world }) =>
      Effect.map(Effect.exit(world.start(SubmissionWorker.layer)), (exit) =>
        assert.deepStrictEqual(
          Exit.isFailure(exit) && Cause.squash(exit.cause),
          new UnsafeDatabase({ setting: "fsync" })
        ))
    ),
    [w.pass("1 minute"), w.sent(0)]
  ],
  "starts even if holding the accepted operations of a replaced database takes minutes": [
    [w.store({ prepare: Effect.delay(Effect.succeed({ moved: true }), "5 minutes") }), w.accept()],
    w.act((scene) =>
      Effect.map(
        Effect.forkChild(scene.world.start(SubmissionWorker.layer)),
        (running) => Object.assign(scene, { running })
      )
    ),
    [w.pass("4 minutes"), w.is("accepted"), w.pass("2 minutes"), w.join, w.is("submitted")]
  ],
  "holds an operation that it has sent if the ledger has lost the claim": [
    [w.answers(w.slowly("1 second")), w.accept(), w.begin(), w.until(({ world }) => world.attempts.length === 1)],
    [w.failOver, w.forget, w.pass("2 seconds"), w.join, w.work(0), w.is("accepted"), w.underReview(true)],
    [w.reconcile(), w.check(({ world }) => assert.strictEqual(world.reads[0]?.reference, reference))]
  ],
  "does not hold an operation that it provably has not sent": [
    [w.noCircuit, w.answers(w.refused), w.accept(), w.begin(), w.until(({ world }) => world.attempts.length === 1)],
    [w.forget, w.pass("sendWithin"), w.join, w.is("accepted"), w.underReview(false)]
  ]
})

describe("A policy", () => {
  it.effect("that would rescue a claim whose holder may still send is refused", () =>
    Effect.gen(function*() {
      const policy = { sendWithin: Duration.seconds(30), attemptTimeout: Duration.seconds(30) }
      for (const [rescueAfter, tag] of [[60, "Failure"], [61, "Success"]] as const) {
        const world = Effect.scoped(makeWorld({ policy: { ...policy, rescueAfter: Duration.seconds(rescueAfter) } }))
        assert.strictEqual((yield* Effect.exit(world))._tag, tag)
      }
    }))
})
