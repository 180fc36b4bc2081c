/** The work of a worker is counted by how it ended, against a scripted provider on the test's clock. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { PrometheusMetrics } from "effect/observability"
import { Distribution } from "../../../src/metrics/Series.ts"
import {
  namesNothing,
  StatusAnswer,
  SubmissionAnswer as Answer
} from "../../../src/submission/providers/ProviderAdapter.ts"
import { parseScrape } from "../../fixtures/metrics/Scrape.ts"
import * as w from "../../fixtures/submission/WorkerStories.ts"
import { bank, unclear, unreachable } from "../../fixtures/submission/World.ts"

const named = { names: namesNothing, evidence: null }
const provider = { provider: bank }

const ends = [
  ["submitted", "an acknowledgement", w.accepts, 0],
  ["succeeded", "a success", Effect.succeed(Answer.Succeeded(named)), 0],
  ["failed", "a refusal", Effect.succeed(Answer.Rejected({ code: "no", ...named })), 0],
  ["indeterminate", "no answer", w.reset, 0],
  ["not_sent", "a local failure", w.notSent("no credentials", { isLocal: true }), 1],
  ["not_sent", "a permanent one", w.notSent("it cannot be encoded", { isPermanent: true }), 0]
] as const
const reads = [
  ["unreachable", unreachable],
  ["not_proven", unclear],
  ["proven", StatusAnswer.Proven({ state: "succeeded", ...named })]
] as const
const causes = [
  ["circuit", w.reset],
  ["local_failure", w.notSent("401", { isLocal: true })],
  ["undeclared_answers", w.uncertain("404", { isUndeclared: true })]
] as const
const pausedBy = (...expected: ReadonlyArray<string>) =>
  causes.map(([cause]) =>
    w.measured("gateway_provider_paused", expected.includes(cause) ? 1 : 0, { ...provider, cause })
  )

it("A value on a bound of a histogram counts in its bucket", () => {
  const distribution = new Distribution([1, 2])
  for (const value of [0.5, 1, 1.5, 2, 3]) distribution.record(value)
  assert.deepStrictEqual(distribution.state().buckets, [[1, 2], [2, 4]])
})

w.tell("The metrics of submissions", {
  ...w.each(
    ends,
    ([outcome, end]) => `count a claim, and a submission that ended as ${outcome} by ${end}`,
    ([outcome, , answer, returned]) => [
      [w.answers(answer), w.accept(), w.workFor("1 minute"), w.measured("gateway_claims_total", 1, provider)],
      w.measured("gateway_sends_total", 1, { ...provider, outcome }),
      // The other outcomes are there, with 0.
      () =>
        Effect.map(
          PrometheusMetrics.format(),
          (text) => assert.lengthOf(parseScrape(text).find("gateway_sends_total"), 5)
        ),
      [w.measured("gateway_sends_total", 1), w.measured("gateway_claims_returned_total", returned)],
      w.measured("gateway_send_duration_seconds_count", 1)
    ]
  ),
  ...w.each(
    reads,
    ([outcome]) => `count a status read as ${outcome}`,
    ([outcome, answer]) => [
      [w.finds(answer), w.accept(), w.work(), w.pass("1 day"), w.reconcile(1)],
      w.measured("gateway_status_reads_total", 1, { ...provider, outcome }),
      w.measured("gateway_status_reads_total", 1)
    ]
  ),
  "count the claims that the rescuer moved": [
    [
      w.accept(3),
      w.lostAnswer("claim"),
      w.work(0),
      w.pass("1 hour"),
      w.rescue(),
      w.measured("gateway_rescues_total", 3)
    ]
  ],
  ...w.each(
    causes,
    ([cause]) => `show that a provider is paused, with the cause ${cause}`,
    ([cause, answer]) => [
      [w.answers(answer), w.start(), pausedBy(), w.accept(5), w.pass("500 millis"), pausedBy(cause)]
    ]
  )
})
