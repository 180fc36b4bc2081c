/**
 * `npm run bench`: the gateway's command `serve` against peers on the same database, in alternating rounds. Each server
 * of each scenario is a fresh process.
 *
 *     npm run bench -- --quick --scenario read
 *
 * Exits with 1 if a response was not 200. Linux only: memory and CPU time are read from /proc.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import * as path from "node:path"
import { buildGoPeer, goInstallation, hasGo } from "./peers/goPeer.ts"
import { compare, type Comparison } from "./reads/compare.ts"
import { gateway, peersOn } from "./reads/contestants.ts"
import { startIssuer } from "./reads/issuer.ts"
import { errorsOf, missedGoals, type Report, toTable } from "./reads/report.ts"
import { scenarioKeys, scenariosFor } from "./reads/scenarios.ts"
import { commandOf, commandOptions, shippedCommand } from "./shared/command.ts"
import { benchDatabase, databaseAddress, ownerOf, postmasterPid, prepareReaders } from "./shared/database.ts"
import { startProcess } from "./shared/processes.ts"
import { machine, print, say } from "./shared/report.ts"
import { choices, existingFile, fail, flag, number, readOptions, whole } from "./shared/usage.ts"

const values = readOptions(import.meta.url, {
  scenario: choices("Measures only this scenario", scenarioKeys),
  operations: whole("Operations of the large owner", { from: 200, to: 100_000_000, default: 1_000_000 }),
  connections: whole("Connections of the load", { from: 1, to: 10_000, default: 64 }),
  rounds: whole("Rounds of each target, 5 or with --quick 3", { from: 1, to: 1000, default: null }),
  seconds: number("Length of a round, chosen by the scenario or with --quick 1", {
    from: 0.05,
    to: 3600,
    default: null
  }),
  "warm-up": number("Seconds before the rounds, 3 or with --quick 1", { from: 0.05, to: 3600, default: null }),
  quick: flag("Fewer and shorter rounds, for rough figures"),
  go: flag("Measures the Go peer, too; needs golang-go and golang-github-jackc-pgx-v4-dev of Debian"),
  before: existingFile("Measures the command of an earlier build, too, as a peer in the same rounds"),
  check: flag("Exits with 1 when a goal fails"),
  json: flag("Prints the report as JSON"),
  profile: flag("Writes CPU profiles of the gateway to the working directory, too"),
  ...commandOptions
})

const { before, connections, go, operations, quick } = values
const rounds = values.rounds ?? (quick ? 3 : 5)
const warmUpSeconds = values["warm-up"] ?? (quick ? 1 : 3)
const keep = values.keep === null ? null : path.resolve(values.keep)
const given = commandOf(values)
if (go && !hasGo()) fail(`--go needs Go and pgx: ${goInstallation}`)

/** Operations of each owner. */
const counts = [operations, 100]

const benchmark = Effect.gen(function*() {
  if (!go) yield* say(`No Go peer: add --go (${goInstallation})`)
  const command = given ?? (yield* shippedCommand)
  const goBinary = go ? yield* buildGoPeer : null
  const [large, small] = yield* prepareReaders(keep, counts)
  const address = yield* databaseAddress
  const scenarios = scenariosFor(values.scenario, {
    database: address,
    command: { command, flags: values.profile ? ["--cpu-prof"] : [] },
    peers: [
      ...before === null ? [] : [gateway(address, { command: path.resolve(before), flags: [] }, "gateway before")],
      ...peersOn(address, goBinary)
    ],
    large: large!,
    small: small!,
    issuer: yield* startIssuer(ownerOf(operations)),
    seconds: (full) => values.seconds ?? (quick ? 1 : full)
  })
  // Pinned: on the CPU of a server it would slow that server down while another CPU idles.
  const load = yield* startProcess("reads/load.ts", { pinned: true })
  const plan = { rounds, connections, warmUpSeconds, postmaster: yield* postmasterPid }
  const comparisons: Array<Comparison> = []
  for (const scenario of scenarios) {
    yield* say(`Measuring: ${scenario.name} …`)
    comparisons.push(yield* compare(load, scenario, plan))
  }
  return {
    machine: machine(),
    command: path.relative(process.cwd(), command),
    operations,
    connections,
    rounds,
    comparisons
  } satisfies Report
})

const main = Effect.gen(function*() {
  const report = yield* Effect.provide(Effect.scoped(benchmark), benchDatabase(keep, counts))
  print(values.json, report, toTable)
  const errors = errorsOf(report)
  for (const error of errors) yield* say(error)
  if (errors.length > 0 || (values.check && missedGoals(report).length > 0)) process.exitCode = 1
})

NodeRuntime.runMain(Effect.scoped(main))
