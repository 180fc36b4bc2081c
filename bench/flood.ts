/**
 * `npm run flood`: measures one honest client beside 2,000 hostile connections. Those send half requests, do not read
 * their responses, abort requests, forge tokens, request expensive lists, and send long paths.
 *
 *     npm run flood -- --times 10
 *
 * Rounds without and with the flood alternate. Exits with 1 if the honest client's p99 in the flood is at least 3 times
 * the p99 without it, if one of its reads fails, or if `/readyz` is not 200. Linux only.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as http from "node:http"
import { withProgress } from "../src/cli/ProgressBar.ts"
import { LocalPostgres } from "../src/node/embedded/LocalPostgres.ts"
import { RateLimit } from "../src/node/RateLimitSettings.ts"
import { Grants } from "../src/services/Grants.ts"
import type { Answers, FloodConfig } from "./flood/attackers.ts"
import { shippedCommand } from "./shared/command.ts"
import { BenchDatabase, grantFor, prepareDatabase } from "./shared/database.ts"
import { startGateway } from "./shared/gateway.ts"
import { peakMemoryOf } from "./shared/proc.ts"
import { nextMessage, startReady } from "./shared/processes.ts"
import { median } from "./shared/statistics.ts"
import { flag, number, readOptions, text } from "./shared/usage.ts"

const isQuota = Schema.is(Schema.toEncoded(RateLimit))

const options = readOptions(import.meta.url, {
  quick: flag("Runs one short round"),
  "rate-limit": text("RATE_LIMIT of the gateway, such as 100/s (default none)", {
    takes: "QUOTA",
    default: null,
    problem: (quota) => isQuota(quota) ? null : "must be a quota such as 100/s, 100/s;burst=200 or 5000/h"
  }),
  times: number("Multiplies the requests a second of the flood", { from: 0.01, to: 100, default: 1 }),
  json: flag("Prints the report as JSON")
})

const plan = options.quick ? { rounds: 1, seconds: 10 } : { rounds: 5, seconds: 20 }

const { times } = options

/**
 * Connections: 1,000 send half requests, 400 do not read, 250 send lists, 250 forged tokens, 16 paths; the rest abort.
 */
const flood = {
  connections: { idle: 1000, slow: 400, lists: 250, refused: 250 },
  rates: { aborted: 20 * times, refused: 50 * times, lists: 50 * times, paths: 15 * times }
}

/** The limit of the ratio of the honest p99 in the flood to the p99 without it. */
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
  const { database, port, socketDirectory, username } = yield* LocalPostgres
  return yield* startGateway({
    database: { database, port, socketDirectory, username },
    command: yield* shippedCommand,
    environment: options["rate-limit"] === null ? {} : { RATE_LIMIT: options["rate-limit"] }
  })
})

interface Phase {
  /** Milliseconds. */
  readonly p50: number
  readonly p99: number
  readonly reads: number
  /** Reads and probes that were not 200. */
  readonly failures: number
}

/** The honest client reads one operation after the other, while a probe requests `/readyz` ten times a second. */
const behaveWell = (port: number, token: string, ids: ReadonlyArray<string>) =>
  Effect.promise(async (): Promise<Phase> => {
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
    const at = (share: number) => sorted[Math.floor(sorted.length * share)]!
    return { p50: at(0.5), p99: at(0.99), reads: sorted.length, failures }
  })

/** The honest client: it has 100 operations, and is not the client of the flood. */
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

const middleOf = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly middle: Date }>`
    SELECT created_at AS middle FROM operations ORDER BY created_at DESC OFFSET 300000 LIMIT 1`
  return row!.middle.toISOString()
})

const run = Effect.gen(function*() {
  const [greedy] = yield* prepareDatabase([600_000])
  const honest = yield* honestReader
  const middle = yield* middleOf
  const { pid, port } = yield* startServe
  const config: FloodConfig = { port, token: greedy!.token, middle, ...flood }
  const quiet: Array<Phase> = []
  const flooded: Array<Phase> = []
  let answers: Answers = {}
  yield* behaveWell(port, honest.token, honest.ids)
  yield* withProgress({ label: "Measuring", unit: "rounds", total: plan.rounds }, (progress) =>
    Effect.gen(function*() {
      for (let round = 1; round <= plan.rounds; round++) {
        quiet.push(yield* behaveWell(port, honest.token, honest.ids))
        yield* Effect.scoped(Effect.gen(function*() {
          const { child } = yield* startReady("flood/attackers.ts", config)
          yield* Effect.sleep("3 seconds")
          flooded.push(yield* behaveWell(port, honest.token, honest.ids))
          child.send({})
          answers = (yield* nextMessage<{ readonly answers: Answers }>(child)).answers
        }))
        yield* Effect.sleep("2 seconds")
        progress.advance()
      }
    }))
  const failures = [...quiet, ...flooded].reduce((sum, phase) => sum + phase.failures, 0)
  const ratio = median(flooded.map(({ p99 }, round) => p99 / quiet[round]!.p99))
  return {
    quiet: { p50: median(quiet.map(({ p50 }) => p50)), p99: median(quiet.map(({ p99 }) => p99)) },
    flooded: { p50: median(flooded.map(({ p50 }) => p50)), p99: median(flooded.map(({ p99 }) => p99)) },
    reads: flooded.reduce((sum, { reads }) => sum + reads, 0),
    failures,
    ratio,
    answers,
    peakMemoryMiB: Math.round(peakMemoryOf(pid)),
    holds: failures === 0 && ratio < mostRatio
  }
})

const millis = (value: number) => `${value.toFixed(1)} ms`

run.pipe(
  Effect.tap((report) =>
    Effect.sync(() => {
      if (options.json) return process.stdout.write(`${JSON.stringify(report)}\n`)
      const { answers, failures, flooded, peakMemoryMiB, quiet, ratio } = report
      return process.stdout.write([
        "| Honest client | without the flood | in the flood | ratio |",
        "|---|---|---|---|",
        `| p50 | ${millis(quiet.p50)} | ${millis(flooded.p50)} | ${(flooded.p50 / quiet.p50).toFixed(2)} |`,
        `| p99 | ${millis(quiet.p99)} | ${millis(flooded.p99)} | ${ratio.toFixed(2)} (below ${mostRatio}) |`,
        "",
        `Failed reads and probes: ${failures} of ${report.reads} reads in the flood. Peak memory: ${peakMemoryMiB} MiB.`,
        `Answers to the flood in the last round: ${JSON.stringify(answers)}`,
        ""
      ].join("\n"))
    })
  ),
  Effect.flatMap(({ holds }) => Effect.sync(() => void (process.exitCode = holds ? 0 : 1))),
  Effect.scoped,
  Effect.provide(BenchDatabase),
  NodeRuntime.runMain
)
