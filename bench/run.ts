/**
 * Runs a benchmark of HTTP reads on a database of its own, and prints its report.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, type Layer, type Scope } from "effect"
import { BenchDatabase } from "./database.ts"
import { errorsOf, type Report, toJson, toTable } from "./report.ts"

/** Writes a line of progress to stderr. */
export const say = (line: string) => Effect.sync(() => process.stderr.write(`${line}\n`))

/** The process exits with 1 if a response was not 200, or if `fails` returns true. */
export const runBenchmark = <E>(
  benchmark: Effect.Effect<Report, E, Layer.Success<typeof BenchDatabase> | Scope.Scope>,
  options: { readonly json: boolean; readonly fails?: (report: Report) => boolean }
): void => {
  const main = Effect.gen(function*() {
    const report = yield* Effect.provide(Effect.scoped(benchmark), BenchDatabase)
    process.stdout.write(options.json ? toJson(report) : toTable(report))
    const errors = errorsOf(report)
    for (const error of errors) yield* say(error)
    if (errors.length > 0 || options.fails?.(report) === true) process.exitCode = 1
  })
  NodeRuntime.runMain(Effect.scoped(main))
}
