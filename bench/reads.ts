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
import { LocalPostgres } from "../src/node/embedded/LocalPostgres.ts"
import { buildGoPeer, goInstallation, hasGo } from "./peers/goPeer.ts"
import { compare, type Comparison } from "./reads/compare.ts"
import { peersOn } from "./reads/contestants.ts"
import { startIssuer } from "./reads/issuer.ts"
import { readReadsOptions } from "./reads/options.ts"
import { errorsOf, missedGoals, type Report, toJson, toTable } from "./reads/report.ts"
import { scenariosFor } from "./reads/scenarios.ts"
import { shippedCommand } from "./shared/command.ts"
import { benchDatabase, ownerOf, postmasterPid, prepareReaders } from "./shared/database.ts"
import { startProcess } from "./shared/processes.ts"
import { say } from "./shared/progress.ts"
import { machine } from "./shared/table.ts"
import { fail } from "./shared/usage.ts"

const options = readReadsOptions(import.meta.url)
if (options.go && !hasGo()) fail(`--go needs Go and pgx: ${goInstallation}`)

/** Operations of each owner. */
const counts = [options.operations, 100]

const benchmark = Effect.gen(function*() {
  if (!options.go) yield* say(`No Go peer: add --go (${goInstallation})`)
  const { connections, operations, rounds, warmUpSeconds } = options
  const command = options.command ?? (yield* shippedCommand)
  const goBinary = options.go ? yield* buildGoPeer : null
  const [large, small] = yield* prepareReaders(options.keep, counts)
  const { database, port, socketDirectory, username } = yield* LocalPostgres
  const address = { database, port, socketDirectory, username }
  const scenarios = scenariosFor(options.scenarios, {
    database: address,
    command: { command, flags: options.profile ? ["--cpu-prof"] : [] },
    peers: peersOn(address, goBinary),
    large: large!,
    small: small!,
    issuer: yield* startIssuer(ownerOf(operations)),
    seconds: options.seconds
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
  const report = yield* Effect.provide(Effect.scoped(benchmark), benchDatabase(options.keep, counts))
  process.stdout.write(options.json ? toJson(report) : toTable(report))
  const errors = errorsOf(report)
  for (const error of errors) yield* say(error)
  if (errors.length > 0 || (options.check && missedGoals(report).length > 0)) process.exitCode = 1
})

NodeRuntime.runMain(Effect.scoped(main))
