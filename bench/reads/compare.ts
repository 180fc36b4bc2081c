/**
 * Compares the targets of a scenario in alternating rounds, so that other load on the machine affects all of them. Each
 * target has a process of its own, started for the scenario.
 */
import { Effect } from "effect"
import type { ChildProcess } from "node:child_process"
import { ask } from "../shared/probing.ts"
import { cpuOf, cpuOfChildren, peakMemoryOf } from "../shared/proc.ts"
import { nextMessage } from "../shared/processes.ts"
import { alternate } from "../shared/rounds.ts"
import { median } from "../shared/statistics.ts"
import { assertSameAnswers } from "./answers.ts"
import type { Contestant, Server } from "./contestants.ts"
import { type GoalResult, type Goals, judge } from "./goals.ts"
import type { LoadJob, LoadRequest, LoadResult } from "./load.ts"

/** A server, and the requests to send to it. */
export interface Target {
  readonly name: string
  readonly contestant: Contestant
  readonly token: string
  readonly requests: ReadonlyArray<LoadRequest>
}

export interface Scenario {
  /** For `--scenario`. */
  readonly key: string
  readonly name: string
  /** The first is compared with each of the others. */
  readonly targets: ReadonlyArray<Target>
  /** Length of a round, in seconds. */
  readonly seconds: number
  /** Whether all targets must give the same answers. */
  readonly isSame: boolean
  readonly goals: Goals
}

interface Plan {
  readonly rounds: number
  readonly connections: number
  readonly warmUpSeconds: number
  /** Process id of the PostgreSQL server. */
  readonly postmaster: number
}

/** Medians over the rounds, and the sum of the errors. */
export interface Measurement {
  readonly name: string
  readonly requestsPerSecond: number
  /** Milliseconds. */
  readonly p50: number
  readonly p99: number
  /** CPU time for each request, in microseconds. Other load on the machine changes it less than the other figures. */
  readonly serverCpu: number
  readonly databaseCpu: number
  /** Garbage collection for each request, in microseconds, from a round of its own. Null if the server is not Node. */
  readonly garbage: number | null
  /** Peak resident memory of the process, in MiB. */
  readonly peakMemory: number
  readonly requests: number
  readonly errors: number
  readonly firstError: string | null
}

/** Medians over the rounds of the first target's figure, divided by the other's of the same round. */
export interface Ratio {
  readonly to: string
  /** Of requests per second. */
  readonly requests: number
  readonly p99: number
}

export interface Comparison {
  readonly key: string
  readonly name: string
  readonly targets: ReadonlyArray<Measurement>
  readonly ratios: ReadonlyArray<Ratio>
  readonly goals: ReadonlyArray<GoalResult>
}

interface Round extends LoadResult {
  readonly serverCpu: number
  readonly databaseCpu: number
}

const runRound = Effect.fnUntraced(
  function*(load: ChildProcess, { requests, token }: Target, { pid, port }: Server, seconds: number, plan: Plan) {
    const serverBefore = cpuOf(pid)
    const databaseBefore = cpuOfChildren(plan.postmaster)
    load.send({ port, token, requests, connections: plan.connections, duration: seconds * 1000 } satisfies LoadJob)
    const result = yield* nextMessage<LoadResult>(load)
    return {
      ...result,
      serverCpu: (cpuOf(pid) - serverBefore) / result.requests,
      databaseCpu: (cpuOfChildren(plan.postmaster) - databaseBefore) / result.requests
    } satisfies Round
  }
)

/** Measures the garbage collection in a process of its own, so that the probe disturbs no other round. */
const measureGarbage = Effect.fnUntraced(
  function*(load: ChildProcess, target: Target, seconds: number, plan: Plan) {
    if (!target.contestant.isNode) return null
    const server = yield* target.contestant.start({ isProbed: true })
    yield* runRound(load, target, server, plan.warmUpSeconds, plan)
    const before = yield* ask(server.pid)
    const { requests } = yield* runRound(load, target, server, seconds, plan)
    return ((yield* ask(server.pid)).garbage - before.garbage) * 1000 / requests
  },
  Effect.scoped
)

const summarize = (
  name: string,
  rounds: ReadonlyArray<Round>,
  others: Pick<Measurement, "garbage" | "peakMemory">
): Measurement => ({
  name,
  requestsPerSecond: median(rounds.map((round) => round.requestsPerSecond)),
  p50: median(rounds.map((round) => round.p50)),
  p99: median(rounds.map((round) => round.p99)),
  serverCpu: median(rounds.map((round) => round.serverCpu)),
  databaseCpu: median(rounds.map((round) => round.databaseCpu)),
  ...others,
  requests: rounds.reduce((sum, round) => sum + round.requests, 0),
  errors: rounds.reduce((sum, round) => sum + round.errors, 0),
  firstError: rounds.find((round) => round.firstError !== null)?.firstError ?? null
})

/** Warms all targets up, then measures them in turn. The order alternates from round to round. */
const measureRounds = Effect.fnUntraced(function*(load: ChildProcess, scenario: Scenario, plan: Plan) {
  const contestants = yield* Effect.forEach(
    scenario.targets,
    (target) => Effect.map(target.contestant.start({ isProbed: false }), (server) => ({ target, server })),
    { concurrency: "unbounded" }
  )
  if (scenario.isSame) yield* assertSameAnswers(contestants)
  for (const { server, target } of contestants) yield* runRound(load, target, server, plan.warmUpSeconds, plan)
  const measured = yield* alternate(
    `Measuring ${scenario.key}`,
    plan.rounds,
    contestants,
    ({ server, target }) => runRound(load, target, server, scenario.seconds, plan)
  )
  return measured.map(({ contestant: { server, target }, rounds }) => ({
    target,
    rounds,
    peakMemory: peakMemoryOf(server.pid)
  }))
}, Effect.scoped)

const ratioOf = (first: ReadonlyArray<Round>, to: string, others: ReadonlyArray<Round>): Ratio => {
  const ratio = (of: (round: Round) => number) => median(first.map((round, index) => of(round) / of(others[index]!)))
  return { to, requests: ratio(({ requestsPerSecond }) => requestsPerSecond), p99: ratio(({ p99 }) => p99) }
}

/** Measures a scenario, each target in a fresh process. */
export const compare = Effect.fnUntraced(function*(load: ChildProcess, scenario: Scenario, plan: Plan) {
  const measured = yield* measureRounds(load, scenario, plan)
  const targets: Array<Measurement> = []
  for (const { peakMemory, rounds, target } of measured) {
    const garbage = yield* measureGarbage(load, target, scenario.seconds, plan)
    targets.push(summarize(target.name, rounds, { garbage, peakMemory }))
  }
  const ratios = measured.slice(1).map(({ rounds, target }) => ratioOf(measured[0]!.rounds, target.name, rounds))
  const goals = judge(scenario.goals, targets[0]!, ratios)
  return { key: scenario.key, name: scenario.name, targets, ratios, goals } satisfies Comparison
})
