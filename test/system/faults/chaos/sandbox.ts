/**
 * The sandbox in a process of its own, on its file of record. Prints its port, and runs until it is killed or its
 * standard input ends.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Layer, Logger, Schema } from "effect"
import { Sandbox, SandboxOptions } from "../../../../src/sandbox/Sandbox.ts"
import { configVariable } from "../kit/Plan.ts"
import { tell } from "../kit/Striker.ts"

const options = Schema.decodeUnknownSync(Schema.fromJsonString(SandboxOptions))(process.env[configVariable])

const inputEnds = Effect.callback<void>((resume) => {
  process.stdin.once("end", () => resume(Effect.void)).resume()
})

Sandbox.pipe(
  Effect.flatMap(({ controlUrl, url }) => Effect.sync(() => tell({ _tag: "Ready", url, controlUrl }))),
  Effect.andThen(inputEnds),
  Effect.provide(Sandbox.layer(options)),
  Effect.provide(Layer.mergeAll(Logger.layer([Logger.withConsoleError(Logger.formatJson)]))),
  NodeRuntime.runMain
)
