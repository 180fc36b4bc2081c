/**
 * A worker whose clock differs from the clock of the database by more than five seconds sends nothing and ends no operation, and
 * operators learn why. The tests run a worker over the ledger in memory, whose clock is that of the test.
 */
import { assert } from "@effect/vitest"
import { DateTime, Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import { SendDeadline } from "../../../../src/submission/providers/ProviderAdapter.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import { acknowledged, away, bank, neverReceived } from "../../../fixtures/submission/World.ts"

/** Long after 1970, so that no clock of the tests is before it. */
const begin: w.Step = () => TestClock.setTime(Date.UTC(2026, 0))

const wrong = [
  ["60 seconds behind", -60_000, "60.0 s behind the clock of the database"],
  ["an hour ahead", 3_600_000, "3600.0 s ahead of the clock of the database"],
  ["5.1 seconds behind", -5100, "5.1 s behind the clock of the database"]
] as const
const clockLines = (count: number) => w.logged("The clock of", count)
const told = (clock: string) =>
  w.check(({ world: { logs } }) => {
    const lines = logs.filter(({ message }) => String(message).startsWith("The clock"))
    assert.deepStrictEqual(lines.map(({ annotations, level }) => [level, annotations["clock"]]), [["WARN", clock]])
  })
/** In steps, so that the worker has done all that is due before the clock moves on. */
const twoMinutes = w.pass("1 second", 120)
const noCredentials = w.answers(w.notSent("no credentials", { isLocal: true }))

w.tell("A worker whose clock is", {
  ...w.each(
    wrong,
    ([name]) => `${name} sends nothing, returns its claims, and says why to operators`,
    ([, skew, shown]) => [
      [begin, w.skew(skew), w.accept(5), w.work(), w.sent(0), told(shown)],
      [0, 1, 2, 3, 4].map((n) => w.returned(`the clock of this worker is ${shown}`, n)),
      w.logged("Paused a provider", [["WARN", { provider: bank, reason: `the clock of this worker is ${shown}` }]]),
      // The line of the pause tells it.
      w.logged("Could not send an operation", 0),
      w.measured("gateway_clock_skew_seconds", skew / 1000)
    ]
  ),
  "wrong for two minutes claims one operation at a time, and sends all of them once it is right": [
    [
      begin,
      w.skew(-60_000),
      w.accept(50),
      w.start(),
      twoMinutes,
      w.sent(0),
      told("60.0 s behind the clock of the database")
    ],
    [w.skew(0), twoMinutes, w.sent(50), w.went("submitting submitted"), w.logged("The clocks of this worker", 1)],
    [w.logged("Could not send an operation", 0), w.logged("Resumed a provider", 1)],
    w.check(({ world: { logs, policy } }) => {
      const { annotations } = logs.find(({ message }) => String(message).startsWith("Resumed a provider"))!
      const claims = Number(annotations["returned_claims"])
      // The first claim, and a probe after each pause.
      assert.isTrue(claims > 1 && claims <= policy.providerConcurrency + 15, String(claims))
    })
  ],
  "wrong does not send a claim that it took over either": [
    [begin, noCredentials, w.accept(), w.work(), w.skew(-60_000), w.pass("10 seconds"), w.work(), w.sent(1)],
    w.returned(/^the clock of this worker is 60\.0 s behind/)
  ],
  ...w.each(
    [-60_000, 20_000],
    (skew) => `set by ${skew / 1000} s between two attempts makes no second one`,
    (skew) => [
      [begin, w.noCircuit, w.answers(w.slowly("1 second", w.refused)), w.accept(), w.begin(), w.settle, w.skew(skew)],
      [w.pass("30 seconds"), w.join, w.sent(1), w.returned(/^the clock of this worker was set after the claim/)]
    ]
  ),
  "3 seconds wrong sends, with one warning": [
    [begin, w.skew(-3000), w.accept(), w.work(), w.accept(), w.work(), w.accept(), w.work(), w.sent(3)],
    told("3.0 s behind the clock of the database")
  ]
})

w.tell("The deadline that a provider learns", {
  ...w.each(
    [-4900, 0, 4900],
    (skew) => `is by the clock of the database, and that of the process by its own: ${skew} ms apart`,
    (skew) => [
      [begin, w.skew(skew), w.policy({ sendWithin: Duration.seconds(3) })],
      w.answers(Effect.map(SendDeadline, (deadline) => {
        assert.strictEqual(deadline, Date.UTC(2026, 0) + skew + 3000)
        return acknowledged
      })),
      [w.accept(), w.work(), w.is("submitted")],
      w.check(({ world: { attempts: [attempt] } }) =>
        assert.deepStrictEqual(attempt!.send_before, DateTime.makeUnsafe(Date.UTC(2026, 0) + 3000))
      )
    ]
  )
})

/** The times before the statement of a claim and after it. */
const slowClaim = (before: Duration.Input, after: Duration.Input) =>
  w.store(({ claim }) => ({
    claim: (...args) => Effect.tap(Effect.delay(claim(...args), before), Effect.sleep(after))
  }))

w.tell("A slow answer of the database", {
  ...w.each(
    [["20 seconds", 0], [0, "20 seconds"], ["10 seconds", "10 seconds"]] as const,
    ([before, after]) => `is not taken for a wrong clock: ${before} before the claim, ${after} after it`,
    ([before, after]) => [
      [begin, slowClaim(before, after), w.accept(), w.workFor("25 seconds"), w.is("submitted"), clockLines(0)]
    ]
  ),
  ...w.each(
    [-9000, 9000],
    (skew) => `hides no wrong clock: ${skew} ms`,
    (skew) => [
      [begin, w.skew(skew), slowClaim("5 seconds", "5 seconds"), w.accept(), w.workFor("25 seconds"), w.sent(0)],
      w.returned(/^the clock of this worker is 9\.0 s/)
    ]
  ),
  "to a claim and to the question after it returns the claim, because the clock may be wrong": [
    w.store(({ claim }) => ({
      claim: (...args) => Effect.tap(claim(...args), Effect.sleep("8 seconds")),
      readClock: away
    })),
    [begin, w.accept(), w.workFor("25 seconds"), w.sent(0), clockLines(0)],
    w.returned(/^the clock of this worker may differ .* by up to 8\.0 s/)
  ]
})

w.tell("A status read", {
  "begins by the clock of the database, so that no fast clock makes \"not found\" final": [
    [begin, w.answers(w.reset), w.finds(neverReceived), w.accept(), w.work(), w.pass("2 seconds")],
    [w.skew(3_600_000), w.reconcile(), w.read(1), w.is("indeterminate")]
  ]
})
