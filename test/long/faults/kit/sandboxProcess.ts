/** The sandbox in a process of its own. Prints its addresses, and runs until it is killed or its standard input ends. */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Logger } from "effect"
import { Sandbox, type SandboxOptions } from "../../../../src/sandbox/Sandbox.ts"
import { type BankKeys, dialectOf } from "./OpenBanking.ts"
import { configVariable } from "./Plan.ts"

const { keys, ...options } = JSON.parse(process.env[configVariable] ?? "") as SandboxOptions & {
  readonly keys: BankKeys
}

const inputEnds = Effect.callback<void>((resume) => {
  process.stdin.once("end", () => resume(Effect.void)).resume()
})

Sandbox.pipe(
  Effect.flatMap(({ controlUrl, url }) => Effect.sync(() => process.stdout.write(`${url} ${controlUrl}\n`))),
  Effect.andThen(inputEnds),
  Effect.provide(Sandbox.layer(options, options.bank === "open-banking-uk" ? dialectOf(keys) : undefined)),
  Effect.provide(Logger.layer([Logger.withConsoleError(Logger.formatJson)])),
  NodeRuntime.runMain
)
