/**
 * Compares two targets in alternating rounds, so that other load on the machine affects both.
 */
import { Effect } from "effect"
import type { ChildProcess } from "node:child_process"
import { nextMessage, type ServerProcess } from "./child.ts"
import type { LoadJob, LoadResult } from "./load.ts"
import { cpuOf, cpuOfChildren } from "./proc.ts"

/** A server, and the requests to send to it. */
export interface Target {
  readonly name: string
  readonly server: ServerProcess
  readonly token: string
  readonly paths: ReadonlyArray<string>
}

export interface Scenario {
  readonly name: string
  readonly targets: readonly [Target, Target]
  /** Length of a round, in seconds. */
  readonly seconds: number
  /** Bounds of the ratio of the first target's requests per second to the second's. */
  readonly atLeast?: number
  readonly atMost?: number
}

export interface Plan {
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
  readonly requests: number
  readonly errors: number
  readonly firstError: string | null
}

export interface Comparison {
  readonly name: string
  readonly targets: readonly [Measurement, Measurement]
  /** Median over the rounds of the first target's requests per second, divided by the second's of the same round. */
  readonly ratio: number
  readonly atLeast: number | null
  readonly atMost: number | null
  readonly holds: boolean
}

interface Round extends LoadResult {
  readonly serverCpu: number
  readonly databaseCpu: number
}

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

const runRound = Effect.fnUntraced(function*(load: ChildProcess, target: Target, seconds: number, plan: Plan) {
  const { paths, server, token } = target
  const serverBefore = cpuOf(server.pid)
  const databaseBefore = cpuOfChildren(plan.postmaster)
  const job: LoadJob = { port: server.port, token, paths, connections: plan.connections, duration: seconds * 1000 }
  load.send(job)
  const result = yield* nextMessage<LoadResult>(load)
  return {
    ...result,
    serverCpu: (cpuOf(server.pid) - serverBefore) / result.requests,
    databaseCpu: (cpuOfChildren(plan.postmaster) - databaseBefore) / result.requests
  } satisfies Round
})

const summarize = (target: Target, rounds: ReadonlyArray<Round>): Measurement => ({
  name: target.name,
  requestsPerSecond: median(rounds.map((round) => round.requestsPerSecond)),
  p50: median(rounds.map((round) => round.p50)),
  p99: median(rounds.map((round) => round.p99)),
  serverCpu: median(rounds.map((round) => round.serverCpu)),
  databaseCpu: median(rounds.map((round) => round.databaseCpu)),
  requests: rounds.reduce((sum, round) => sum + round.requests, 0),
  errors: rounds.reduce((sum, round) => sum + round.errors, 0),
  firstError: rounds.find((round) => round.firstError !== null)?.firstError ?? null
})

/** Warms both targets up, then measures them in turn. The first target of a round alternates. */
export const compare = Effect.fnUntraced(function*(load: ChildProcess, scenario: Scenario, plan: Plan) {
  const { atLeast = null, atMost = null, name, seconds, targets: [a, b] } = scenario
  const ofA: Array<Round> = []
  const ofB: Array<Round> = []
  for (const target of [a, b]) yield* runRound(load, target, plan.warmUpSeconds, plan)
  for (let round = 0; round < plan.rounds; round++) {
    if (round % 2 === 0) ofA.push(yield* runRound(load, a, seconds, plan))
    ofB.push(yield* runRound(load, b, seconds, plan))
    if (round % 2 === 1) ofA.push(yield* runRound(load, a, seconds, plan))
  }
  const ratio = median(ofA.map(({ requestsPerSecond }, round) => requestsPerSecond / ofB[round]!.requestsPerSecond))
  const targets = [summarize(a, ofA), summarize(b, ofB)] as const
  const holds = (atLeast === null || ratio >= atLeast) && (atMost === null || ratio <= atMost)
  return { name, targets, ratio, atLeast, atMost, holds } satisfies Comparison
})
