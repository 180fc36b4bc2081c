/**
 * `npm run bench:garbage`: what keeps garbage alive under load, each cause alone, with and without its workaround.
 *
 *     npm run bench:garbage -- --only "allocation site"
 *
 * A minor collection copies what is reachable. A dead object of the old generation counts as reachable until a major
 * collection, with all that it refers to. The table shows the bytes by which the old generation grew per operation, and the
 * time of the minor collections. 64 operations run at any time, and hardly any is alive at two collections: the old
 * generation should not grow. Starts a PostgreSQL of its own, without rows. Takes about a minute.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect } from "effect"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { withProgress } from "../src/cli/ProgressBar.ts"
import { LocalPostgres } from "../src/node/embedded/LocalPostgres.ts"
import { type CaseConfig, type CaseResult, causes } from "./garbage/cases.ts"
import { startReady } from "./shared/processes.ts"
import { choices, flag, readOptions } from "./shared/usage.ts"

const options = readOptions(import.meta.url, {
  only: choices("Measures one cause", Object.keys(causes)),
  json: flag("Prints the results as JSON")
})

/**
 * `gc` for the cases; a small young generation, so that few operations suffice; and an old generation that is not collected
 * before the end. Pretenuring is on in the one case that shows it.
 */
const flagsOf = (cause: string) => [
  "--expose-gc",
  "--min-semi-space-size=4",
  "--max-semi-space-size=4",
  "--initial-old-space-size=4096",
  ...cause === "allocation site" ? [] : ["--no-allocation-site-pretenuring"]
]

const main = Effect.gen(function*() {
  const { database, port, socketDirectory, username } = yield* LocalPostgres
  const results: Array<CaseResult & { readonly cause: string; readonly workaround: boolean }> = []
  const cases = options.only.flatMap((cause) => [{ cause, workaround: false }, { cause, workaround: true }])
  yield* withProgress(
    { label: "Measuring", unit: "cases", total: cases.length },
    (progress) =>
      Effect.forEach(cases, ({ cause, workaround }) =>
        Effect.gen(function*() {
          progress.update(results.length, { step: cause })
          const config: CaseConfig = { cause, workaround, database, port, socketDirectory, username }
          const { message } = yield* Effect.scoped(startReady<CaseResult>("garbage/case.ts", config, flagsOf(cause)))
          results.push({ cause, workaround, ...message })
        }), { discard: true })
  )
  if (options.json) return yield* Console.log(JSON.stringify(results, null, 2))
  const cells = ["cause", "", "bytes/op", "collections", "us/op"]
  const table = results.map(({ bytes, cause, collections, major, microseconds, workaround }) => [
    workaround ? "" : cause,
    workaround ? causes[cause]!.workaround : "",
    bytes.toFixed(0),
    `${collections}${major > 0 ? ` + ${major} major` : ""}`,
    microseconds.toFixed(2)
  ])
  const widths = cells.map((cell, at) => Math.max(cell.length, ...table.map((row) => row[at]!.length)))
  for (const row of [cells, ...table]) {
    yield* Console.log(row.map((cell, at) => at < 2 ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!)).join("  "))
  }
})

const directory = fs.mkdtempSync(path.join(os.tmpdir(), "gateway-garbage-"))
main.pipe(
  Effect.provide(LocalPostgres.layer({ dataDirectory: directory })),
  Effect.ensuring(Effect.sync(() => fs.rmSync(directory, { recursive: true, force: true }))),
  NodeRuntime.runMain
)
