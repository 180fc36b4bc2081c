/**
 * `npm run flood`: measures one honest client beside an attack, phase by phase: 2,000 hostile connections, change tokens, unfinished bodies, and wide
 * JSON. `phases.ts` lists them.
 *
 *     npm run flood -- --times 10
 *
 * Rounds without an attack and with each of them alternate. Exits with 1 if the honest client's p99 in a phase is at least 3 times the
 * p99 before it, if one of its reads fails, or if `/readyz` is not 200. Linux only.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as http from "node:http"
import { shippedCommand } from "../../../../bench/shared/command.ts"
import {
  BenchDatabase,
  databaseAddress,
  grantFor,
  ownerOf,
  prepareDatabase
} from "../../../../bench/shared/database.ts"
import { startGateway } from "../../../../bench/shared/gateway.ts"
import { cpuOf, peakMemoryOf } from "../../../../bench/shared/proc.ts"
import { nextMessage, startReady } from "../../../../bench/shared/processes.ts"
import { withProgress } from "../../../../bench/shared/progress.ts"
import { median, percentile } from "../../../../bench/shared/statistics.ts"
import { flag, number, readOptions, text } from "../../../../bench/shared/usage.ts"
import { RateLimit } from "../../../../src/node/http/HttpSettings.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationFeed } from "../../../../src/services/OperationFeed.ts"
import {
  beforeAllIds,
  grantReader,
  ledgerReader,
  maxPending,
  openChangeToken,
  ownerDigest,
  sealChangeToken
} from "../../../../src/services/rules/changeToken.ts"
import { TokenCipher } from "../../../../src/services/TokenCipher.ts"
import { atMost, conclude, type Figures, table, verdictOf } from "../kit/Figure.ts"
import type { Answers } from "./attackers.ts"
import { type PhaseName, phaseNames, type Target } from "./phases.ts"

const isQuota = Schema.is(Schema.toEncoded(RateLimit))

const options = readOptions(import.meta.url, {
  quick: flag("Runs one short round"),
  "rate-limit": text("RATE_LIMIT of the gateway, such as 100/s (default none)", {
    takes: "QUOTA",
    default: null,
    problem: (quota) => isQuota(quota) ? null : "must be a quota such as 100/s, 100/s;burst=200 or 5000/h"
  }),
  phase: text("Runs this phase alone (default all)", {
    takes: "NAME",
    default: null,
    problem: (name) => phaseNames.some((known) => known === name) ? null : `must be one of ${phaseNames.join(", ")}`
  }),
  times: number("Multiplies the requests a second of the attackers", { from: 0.01, to: 100, default: 1 }),
  json: flag("Prints the report as JSON")
})

/** Operations of the client with many. */
const operations = 600_000

const plan = options.quick ? { rounds: 1, seconds: 10 } : { rounds: 5, seconds: 20 }

/** The limit of the ratio of the honest p99 in a phase to the p99 before it. */
const mostRatio = 3

/** Milliseconds between two reads of the honest client. */
const pause = 10

const get = (port: number, path: string, agent: http.Agent, token?: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    http.get({ host: "127.0.0.1", port, path, agent, headers }, (response) => {
      response.resume().once("end", () => resolve(response.statusCode!)).once("error", reject)
    }).once("error", reject)
  })

/** The shipped command on the benchmark's database. */
const startServe = Effect.gen(function*() {
  return yield* startGateway({
    database: yield* databaseAddress,
    command: yield* shippedCommand,
    environment: options["rate-limit"] === null ? {} : { RATE_LIMIT: options["rate-limit"] }
  })
})

interface Measured {
  /** Milliseconds. */
  readonly p50: number
  readonly p99: number
  readonly reads: number
  /** Reads and probes that were not 200. */
  readonly failures: number
}

/** The honest client reads one operation after the other, while a probe requests `/readyz` ten times a second. */
const behaveWell = (port: number, token: string, ids: ReadonlyArray<string>) =>
  Effect.promise(async (): Promise<Measured> => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 4 })
    const latencies: Array<number> = []
    let failures = 0
    const end = performance.now() + plan.seconds * 1000
    const probe = setInterval(() => {
      get(port, "/readyz", agent).then((status) => status === 200 || failures++, () => failures++)
    }, 100)
    while (performance.now() < end) {
      const start = performance.now()
      const id = ids[Math.floor(Math.random() * ids.length)]!
      const status = await get(port, `/v1/operations/${id}`, agent, token).catch(() => 0)
      latencies.push(performance.now() - start)
      if (status !== 200) failures++
      await new Promise((resolve) => setTimeout(resolve, pause))
    }
    clearInterval(probe)
    agent.destroy()
    const sorted = latencies.toSorted((a, b) => a - b)
    return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99), reads: sorted.length, failures }
  })

/** The honest client: it has 100 operations, and is none of the attackers. */
const honestReader = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const request = { ...grantFor("owner-of-100"), client_id: "honest" } as ReturnType<typeof grantFor>
  const { access_token, grant } = yield* Grants.use((grants) => grants.issue(request))
  const rows = yield* sql<{ readonly id: string }>`
    INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type, idempotency_key,
      request_digest, state, revision)
    SELECT uuidv7(), ${grant.client_id}, ${grant.resource_owner}, ${grant.subject}, ${grant.grant_id}::uuid,
      ${grant.provider_connection_id}::uuid, 'payment', 'honest-' || n, sha256('x'), 'accepted', 1
    FROM generate_series(1, 100) n
    RETURNING id`
  return { token: Redacted.value(access_token), ids: rows.map(({ id }) => id) }
})

/** Access tokens of four clients without operations. */
const attackerTokens = Effect.forEach(["one", "two", "three", "four"], (name) => {
  const request = { ...grantFor(`owner-of-${name}`), client_id: `attacker-${name}` } as ReturnType<typeof grantFor>
  return Grants.use((grants) => Effect.map(grants.issue(request), ({ access_token }) => Redacted.value(access_token)))
})

const middleOf = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly middle: Date }>`
    SELECT created_at AS middle FROM operations ORDER BY created_at DESC OFFSET 300000 LIMIT 1`
  return row!.middle.toISOString()
})

/** The change token of a client that has seen all changes but those of 200 transactions. */
const longestChangeToken = Effect.gen(function*() {
  const cipher = yield* TokenCipher
  const grant = grantFor(ownerOf(operations))
  const now = yield* openChangeToken(cipher, yield* OperationFeed.use((feed) => feed.now), ledgerReader)
  const pending = Array.from({ length: maxPending }, (_, n) => ({ position: n + 1, id: beforeAllIds }))
  const reader = grantReader(grant, { states: ["cancelled"], type: null })
  const content = { ...now, owner: yield* ownerDigest(grant.resource_owner), position: { ...now.position, pending } }
  return yield* sealChangeToken(cipher, content, reader)
}).pipe(Effect.provide(OperationFeed.layer))

/** What the honest client measured, and the share of a CPU that the gateway used. */
type Round = Measured & { readonly cpu: number }

/** What an effect returns, and the share of a CPU that the process used meanwhile. */
const withCpu = <A>(pid: number, effect: Effect.Effect<A>) =>
  Effect.suspend(() => {
    const [cpu, start] = [cpuOf(pid), performance.now()]
    return Effect.map(effect, (value) => ({ ...value, cpu: (cpuOf(pid) - cpu) / (performance.now() - start) / 1000 }))
  })

/** The honest client alone, and then beside the attackers of a phase. */
const runRound = Effect.fnUntraced(function*(honest: Effect.Effect<Round>, phase: PhaseName, target: Target) {
  const quiet = yield* honest
  const { answers, flooded } = yield* Effect.scoped(Effect.gen(function*() {
    const { child } = yield* startReady("../test/long/faults/flood/attackers.ts", {
      ...target,
      phase,
      times: options.times
    })
    yield* Effect.sleep("3 seconds")
    const flooded = yield* honest
    child.send({})
    const { answers } = yield* nextMessage<{ readonly answers: Answers }>(child)
    return { answers, flooded }
  }))
  yield* Effect.sleep("2 seconds")
  return { answers, flooded, quiet }
})

const middle = (rounds: ReadonlyArray<Round>) => ({
  p50: median(rounds.map(({ p50 }) => p50)),
  p99: median(rounds.map(({ p99 }) => p99)),
  cpu: median(rounds.map(({ cpu }) => cpu))
})

const reportOf = (phase: PhaseName, rounds: ReadonlyArray<Effect.Success<ReturnType<typeof runRound>>>) => {
  const quiet = rounds.map((round) => round.quiet)
  const flooded = rounds.map((round) => round.flooded)
  const ratio = median(rounds.map(({ flooded, quiet }) => flooded.p99 / quiet.p99))
  const failures = [...quiet, ...flooded].reduce((sum, measured) => sum + measured.failures, 0)
  return {
    phase,
    quiet: middle(quiet),
    flooded: middle(flooded),
    reads: flooded.reduce((sum, { reads }) => sum + reads, 0),
    failures,
    ratio,
    answers: rounds.at(-1)!.answers
  }
}

const run = Effect.gen(function*() {
  const [greedy] = yield* prepareDatabase([operations])
  const { ids, token } = yield* honestReader
  const tokens = yield* attackerTokens
  const middle = yield* middleOf
  const { pid, port } = yield* startServe
  const changeToken = yield* longestChangeToken
  const target: Target = { port, token: greedy!.token, tokens, middle, changeToken }
  const honest = withCpu(pid, behaveWell(port, token, ids))
  yield* honest
  const phases = phaseNames.filter((name) => options.phase === null || name === options.phase)
  const reports = yield* withProgress(
    { label: "Measuring", unit: "rounds", total: plan.rounds * phases.length },
    (progress) =>
      Effect.forEach(phases, (phase) =>
        Effect.map(
          Effect.replicateEffect(
            Effect.tap(runRound(honest, phase, target), () => Effect.sync(() => progress.advance())),
            plan.rounds
          ),
          (rounds) => reportOf(phase, rounds)
        ))
  )
  return { phases: reports, peakMemoryMiB: Math.round(peakMemoryOf(pid)) }
})

const millis = (value: number) => value.toFixed(1)

run.pipe(
  Effect.tap((report) =>
    Effect.sync(() => {
      const figures: Figures = Object.fromEntries(report.phases.flatMap(({ failures, phase, ratio }) => [
        [
          `${phase} ratio`,
          atMost(`p99 beside ${phase}, relative to the p99 before`, Number(ratio.toFixed(2)), mostRatio)
        ],
        [`${phase} failures`, atMost(`reads that failed beside ${phase}`, failures, 0)]
      ]))
      if (options.json) {
        process.stdout.write(`${JSON.stringify(report)}\n`)
        process.exitCode = verdictOf(figures, null).code
        return
      }
      const rows = report.phases.map(({ flooded, phase, quiet, reads }) => [
        phase,
        ...[quiet.p50, flooded.p50, quiet.p99, flooded.p99].map(millis),
        `${Math.round(flooded.cpu * 100)} %`,
        String(reads)
      ])
      conclude(
        figures,
        [
          table([["beside", "p50 before (ms)", "p50", "p99 before", "p99", "CPU", "reads"], ...rows]),
          report.phases.map(({ answers, phase }) => `answers to ${phase} in the last round: ${JSON.stringify(answers)}`)
        ],
        `peak memory ${report.peakMemoryMiB} MiB`
      )
    })
  ),
  Effect.scoped,
  Effect.provide(BenchDatabase),
  NodeRuntime.runMain
)
