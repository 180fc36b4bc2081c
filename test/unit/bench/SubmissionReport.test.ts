/** The report of the submission benchmark: which rounds a ratio compares, and what is told without the baseline. */
import { assert, describe, it } from "@effect/vitest"
import { baseline } from "../../../bench/submission/config.ts"
import { ratioTo, type Rounds, summarize } from "../../../bench/submission/report.ts"
import type { Latency, Throughput } from "../../../bench/submission/rounds.ts"

const throughput = (operationsPerSecond: number, wal: number): Throughput => ({
  commit: 1,
  errors: [],
  operationsPerSecond,
  workerCpu: 400,
  databaseCpu: 300,
  sandboxCpu: 100,
  wal
})

const latency = (...latencies: ReadonlyArray<number>): Latency => ({ commit: 3, errors: [], latencies })

const of = <Round>(name: string, ...rounds: ReadonlyArray<Round>): Rounds<Round> => ({ name, rounds })

describe("The report of the submission benchmark", () => {
  it("compares figures of the same round only", () => {
    // The machine became slower from round to round. Ratios of medians would be 0.5.
    const contestants = [of("peer", 80, 30, 20), of(baseline, 100, 60, 10)]
    assert.strictEqual(ratioTo(contestants, [80, 30, 20], (figure) => figure), 0.8)
  })

  it("has the median of the rounds, and the longest latency of all", () => {
    const report = summarize({
      throughput: [of(baseline, throughput(100, 4000), throughput(300, 1000), throughput(200, 3000))],
      distant: [],
      latency: [of(baseline, latency(9, 2, 1), latency(5, 4, 30))]
    })
    assert.deepStrictEqual(report.throughput, [{
      name: baseline,
      operationsPerSecond: 200,
      ratio: 1,
      workerCpu: 400,
      databaseCpu: 300,
      sandboxCpu: 100,
      wal: 3000
    }])
    assert.deepStrictEqual(report.latency, [{
      name: baseline,
      p50: 3.5,
      p50Ratio: 1,
      p99: 19.5,
      p99Ratio: 1,
      longest: 30
    }])
    assert.deepStrictEqual(report.commit, { median: 1, longest: 3 })
    assert.strictEqual(report.rounds, 3)
  })

  it("tells the errors of every round", () => {
    const errors = ["graphile-worker: 1 operations were not received exactly once"]
    const report = summarize({
      throughput: [of(baseline, throughput(1, 1))],
      distant: [of("graphile-worker", { ...throughput(1, 1), errors })],
      latency: [of("pg-boss", { ...latency(1), errors: ["pg-boss: 2 operations did not succeed"] })]
    })
    assert.deepStrictEqual(report.errors, [...errors, "pg-boss: 2 operations did not succeed"])
  })
})
