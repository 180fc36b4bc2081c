/**
 * `npm run bench`: the gateway against a Fastify peer on the same database, in alternating rounds.
 *
 *   --quick    short rounds, for rough figures
 *   --json     the report as JSON on stdout
 *   --check    exit with 1 when a requirement fails
 *   --prepared the peer names its statements, so that PostgreSQL plans them once; few applications do
 *   --profile  also write a CPU profile of the gateway to the working directory
 *
 * Exits with 1 if a response was not 200. Linux only: memory and CPU time are read from /proc.
 */
import { Effect } from "effect"
import { isDeepStrictEqual, parseArgs } from "node:util"
import { LocalPostgres } from "../src/node/embedded/LocalPostgres.ts"
import { type ServerProcess, startProcess, startServer } from "./child.ts"
import { postmasterPid, prepareDatabase, type Reader } from "./database.ts"
import { compare, type Scenario, type Target } from "./measure.ts"
import { peakMemoryOf } from "./proc.ts"
import type { Report } from "./report.ts"
import { runBenchmark, say } from "./run.ts"

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    check: { type: "boolean", default: false },
    prepared: { type: "boolean", default: false },
    profile: { type: "boolean", default: false }
  }
})

const plan = options.quick
  ? { rounds: 3, connections: 64, warmUpSeconds: 1 }
  : { rounds: 5, connections: 64, warmUpSeconds: 3 }

const secondsARound = (seconds: number) => options.quick ? 1 : seconds

const scenariosFor = (gateway: ServerProcess, peer: ServerProcess, large: Reader, small: Reader) => {
  const versus = (paths: ReadonlyArray<string>): readonly [Target, Target] => [
    { name: "gateway", server: gateway, token: large.token, paths },
    { name: "peer", server: peer, token: large.token, paths }
  ]
  // Half of the small owner's operations, so that both lists have a next page.
  const listOf = (name: string, { token }: Reader): Target => ({
    name,
    server: gateway,
    token,
    paths: ["/v1/operations?page_size=50"]
  })
  const reads = large.ids.map((id) => `/v1/operations/${id}`)
  return [
    { name: "single read", targets: versus(reads), seconds: secondsARound(5), atLeast: 2.5 },
    { name: "list of 100", targets: versus(["/v1/operations"]), seconds: secondsARound(5), atLeast: 1.5 },
    { name: "healthz", targets: versus(["/healthz"]), seconds: secondsARound(2), atLeast: 0.8 },
    {
      name: "list cost, owner of 10^6",
      targets: [listOf("owner of 10^2", small), listOf("owner of 10^6", large)],
      seconds: secondsARound(2),
      atMost: 1.1
    }
  ] satisfies ReadonlyArray<Scenario>
}

const ask = async ({ paths, server, token }: Target) => {
  const response = await fetch(`http://127.0.0.1:${server.port}${paths[0]}`, {
    headers: { authorization: `Bearer ${token}`, "x-request-id": "same-answers" }
  })
  const body = await response.json() as Record<string, unknown>
  return {
    status: response.status,
    headers: ["cache-control", "etag", "x-request-id"].map((name) => response.headers.get(name)),
    // Opaque, and different for each server.
    body: { ...body, next_page_token: typeof body["next_page_token"] }
  }
}

/** Dies unless both servers give the same answers: otherwise the comparison would be meaningless. */
const assertSameAnswers = Effect.fnUntraced(function*({ name, targets: [a, b] }: Scenario) {
  if (a.server === b.server) return
  const [ofA, ofB] = yield* Effect.promise(() => Promise.all([ask(a), ask(b)]))
  if (isDeepStrictEqual(ofA, ofB)) return
  return yield* Effect.die(new Error(`${name}: ${JSON.stringify(ofA)} is not ${JSON.stringify(ofB)}`))
})

const benchmark = Effect.gen(function*() {
  yield* say("Seeding 1,000,000 operations …")
  const [large, small] = yield* prepareDatabase([1_000_000, 100])
  const { database, port, socketDirectory, username } = yield* LocalPostgres
  const config = { database, port, socketDirectory, username, preparedPeer: options.prepared }
  const postmaster = yield* postmasterPid
  const gateway = yield* startServer("gateway.ts", config, options.profile ? ["--cpu-prof"] : [])
  const peer = yield* startServer("peer.ts", config)
  // Pinned: on the CPU of a server it would slow that server down while another CPU idles.
  const load = yield* startProcess("load.ts", { pinned: true })
  const comparisons: Array<Report["comparisons"][number]> = []
  const scenarios = scenariosFor(gateway, peer, large!, small!)
  for (const scenario of scenarios) yield* assertSameAnswers(scenario)
  for (const scenario of scenarios) {
    yield* say(`Measuring: ${scenario.name} …`)
    comparisons.push(yield* compare(load, scenario, { ...plan, postmaster }))
  }
  return {
    comparisons,
    peakMemory: { gateway: peakMemoryOf(gateway.pid), peer: peakMemoryOf(peer.pid) }
  } satisfies Report
})

runBenchmark(benchmark, {
  json: options.json,
  fails: ({ comparisons }) => options.check && comparisons.some(({ holds }) => !holds)
})
