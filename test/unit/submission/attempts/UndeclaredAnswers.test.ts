/**
 * Answers that the adapter does not declare, such as those of a wrong path: each makes its operation `indeterminate`, so the worker pauses
 * the provider after five in a row. The tests run a worker over the ledger in memory, on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Exit, Schema } from "effect"
import { TestClock } from "effect/testing"
import { ResourceOwner } from "../../../../src/domain/Grant.ts"
import { NotSent, SubmissionAnswer, Uncertain } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { ProviderPauses } from "../../../../src/submission/providers/ProviderPauses.ts"
import { unknownId } from "../../../fixtures/ledger/Ledger.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import { acknowledged, bank, notFound, unreachable } from "../../../fixtures/submission/World.ts"

const undeclared = w.uncertain("status 404, which is not declared", { isUndeclared: true })
const unauthorized = { isUndeclared: true, isUnauthorized: true }
const paused = "Paused a provider"
const resumed = "Resumed a provider"
const wrongPath = "a 404 that the adapter does not declare"
const refused = "the provider refused the credentials: status 401"
const line = (reason: string) => [["WARN", { provider: bank, reason }]] as const

w.tell("A probe at the start that speaks against the settings", {
  "pauses the provider without a submission, until a repeated probe passes": [
    [w.probes(Effect.succeed(wrongPath)), w.start(), w.settle],
    w.logged("Paused a provider whose probe failed", line(wrongPath)),
    [w.accept(30), w.pass("10 minutes"), w.probed(61)],
    // A bank that is away proves nothing.
    [w.probes(Effect.fail(unreachable)), w.pass("10 minutes"), w.sent(0), w.logged(paused, 1)],
    [w.probes(Effect.succeed(null)), w.pass("15 seconds"), w.sent(30), w.mark, w.pass("1 minute"), w.probedSince(0)],
    w.logged("Resumed a provider: its probe passed", 1)
  ],
  "pauses the provider for refused credentials, until the probe passes": [
    [w.probes(Effect.succeed(refused)), w.start(), w.pass("1 minute")],
    w.logged("Paused a provider after a local failure", 1),
    [w.probes(Effect.succeed(null)), w.pass("11 seconds"), w.logged("Resumed a provider: its probe passed", 1)]
  ],
  "pauses the provider for refused credentials, and lets one operation at a time try": [
    [w.probes(Effect.succeed(refused)), w.answers(w.notSent(refused, { isRefused: true, isLocal: true }))],
    [w.start(), w.settle, w.logged(paused, 1), w.accept(30), w.pass("5 seconds")],
    w.check(({ world }) => assert.isTrue(world.attempts.length > 0 && world.attempts.length < 6)),
    [w.answers(w.accepts), w.pass("30 seconds"), w.is("submitted")]
  ],
  "pauses the provider only until a declared answer to an attempt that is under way": [
    [w.probes(Effect.delay(Effect.succeed("a 404"), "1 second")), w.answers(w.slowly("3 seconds")), w.accept()],
    [w.start(), w.pass("2 seconds"), w.logged(paused, 1), w.pass("2 seconds"), w.logged(resumed, 1)]
  ],
  "does not delay the start, and an attempt that was declared shows more": [
    [w.probes(Effect.delay(Effect.succeed("a 404"), "3 seconds")), w.accept(), w.start(), w.pass("2 seconds")],
    [w.sent(1), w.pass("2 seconds"), w.logged(paused, 0)]
  ]
})

/** Of a bank that finds no operation. */
const lost = [w.answers(undeclared), w.finds(notFound)]

w.tell("Answers that the adapter does not declare", {
  "pause the provider after five in a row, with any answers to status reads in between": [
    [...lost, ...Array.from({ length: 30 }, () => [w.accept(), w.work(), w.reconcile()]).flat()],
    [w.counts({ indeterminate: 5, accepted: 25 })],
    w.logged("A provider gave an answer", line("status 404, which is not declared")),
    w.logged("Paused a provider after answers", line("status 404, which is not declared"))
  ],
  "pause the provider after the first one that refuses the credentials": [
    [w.policy({ concurrency: 1 }), w.answers(w.uncertain("status 401, which is not declared", unauthorized))],
    [w.accept(4), w.work(), w.sent(1), w.is("indeterminate", 0)]
  ],
  "reach five operations of a backlog, and none of the claims that were returned before": [
    // A new worker knows no pause.
    [...lost, w.answers(w.wrongKey), w.accept(30), w.work(), w.pass("1 minute"), w.answers(undeclared), w.start()],
    [w.pass("900 millis"), w.stop, w.counts({ indeterminate: 5, submitting: 25 })],
    [w.answers(w.accepts), w.start(), w.pass("3 minutes"), w.counts({ indeterminate: 5, submitted: 25 })],
    w.act(({ ids, world }) =>
      Effect.forEach(ids, (id) =>
        Effect.map(world.historyOf(id), (history) => {
          assert.lengthOf(history, 3)
          const tries = world.attempts.filter((attempt) => attempt.id === id)
          if (history[2] === "submitted") assert.lengthOf(tries, 2, "one with the wrong key, one send")
        }))
    )
  ],
  "are probed by one operation at a time, less and less often, until the first declared one": [
    // The first poll ends before the clock moves.
    [...lost, w.policy({ pollInterval: Duration.seconds(1) }), w.accept(100), w.start(), w.settle, w.settle],
    w.pass("13 minutes"),
    w.check(({ world }) => {
      const times = world.attempts.map(({ at }) => at / 1000)
      const pauses = times.slice(5).map((at, n) => at - times[n + 4]!)
      assert.lengthOf(pauses, 5)
      for (const [n, pause] of pauses.entries()) assert.approximately(pause, [30, 60, 120, 240, 300][n]!, 1.1)
    }),
    [w.answers(w.accepts), w.pass("6 minutes"), w.counts({ indeterminate: 10, submitted: 90 }), w.logged(resumed, 1)]
  ],
  "cannot surprise many operations at once: five are under way until one answer is declared": [
    [w.answersOnRelease, w.accept(20), w.begin(), w.settle, w.sent(5), w.pass("1 second"), w.sent(5)],
    [w.answers(Effect.never), w.release, w.settle, w.sent(20)],
    w.check(({ running }) => assert.isUndefined(running.pollUnsafe()))
  ]
})

describe("Any answers", () => {
  const ofOne = Exit.fail(new NotSent({ reason: "no credentials", isLocal: true, isOfOperation: true }))
  const exits: Readonly<Record<string, Exit.Exit<SubmissionAnswer, NotSent | Uncertain>>> = {
    declared: Exit.succeed(acknowledged),
    "refused for now": Exit.fail(new NotSent({ reason: "429", isRefused: true })),
    undeclared: Exit.fail(new Uncertain({ reason: "status 404", isUndeclared: true })),
    "other operation": Exit.succeed(
      SubmissionAnswer.Succeeded({ names: { operation_id: "another", reference: null }, evidence: null })
    ),
    "no answer": Exit.fail(new Uncertain({ reason: "the connection was reset" })),
    "local failure": Exit.fail(new NotSent({ reason: "status 401", isRefused: true, isLocal: true })),
    ...Object.fromEntries([1, 2, 3, 4, 5].map((n) => [`of owner ${n}`, ofOne]))
  }
  const Attempted = Schema.Literals(Object.keys(exits))

  it.effect.prop(
    "pause the provider until the first declared one, through any other ends of probes",
    [Schema.Array(Attempted)],
    ([attempts]) =>
      Effect.gen(function*() {
        const pauses = yield* ProviderPauses
        let undeclared = 0
        const owners = new Set<string>()
        let isPaused = false
        const five = Array.from({ length: 5 }, () => "undeclared")
        for (const attempt of [...five.slice(2), ...attempts, ...five, "local failure", "no answer"]) {
          yield* TestClock.adjust("5 minutes")
          const { limit, probeOf } = yield* pauses.admit(bank, 5)
          assert.strictEqual(limit, probeOf === null ? 5 : 1)
          yield* pauses.observe(bank, probeOf, exits[attempt]!, {
            id: unknownId,
            resource_owner: ResourceOwner.make(attempt.replaceAll(" ", "-"))
          })
          yield* pauses.release(probeOf)
          if (attempt === "declared" || attempt === "refused for now") {
            undeclared = 0
            owners.clear()
          } else if (attempt === "undeclared" || attempt === "other operation") undeclared++
          else if (exits[attempt] === ofOne) owners.add(attempt)
          if (exits[attempt] === ofOne) isPaused ||= owners.size >= 5
          else isPaused = undeclared >= 5 || attempt === "local failure"
          assert.strictEqual(pauses.reasonOf(bank) !== null, isPaused)
        }
      }).pipe(Effect.provide(ProviderPauses.layer))
  )
})
