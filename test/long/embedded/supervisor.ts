import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Logger } from "effect"
import { LocalPostgres, type LocalPostgresOptions } from "../../../src/node/embedded/LocalPostgres.ts"

/**
 * A process that runs a LocalPostgres until its standard input ends. Started by the tests with the layer's options as
 * JSON in `OPTIONS` (not in the arguments: the tests find PostgreSQL's processes by the directory in theirs). Prints
 * one line of JSON: the service, or the error.
 */
const options: LocalPostgresOptions = JSON.parse(process.env["OPTIONS"] ?? "{}")

const say = (line: unknown) => Effect.sync(() => void process.stdout.write(`${JSON.stringify(line)}\n`))

const inputEnds = Effect.callback<void>((resume) => {
  process.stdin.once("end", () => resume(Effect.void)).resume()
})

LocalPostgres.pipe(
  Effect.flatMap(say),
  Effect.andThen(inputEnds),
  Effect.provide(LocalPostgres.layer(options)),
  Effect.catchTag("LocalPostgresError", (error) => say({ error: error.message })),
  Effect.provide(Logger.layer([])),
  NodeRuntime.runMain
)
