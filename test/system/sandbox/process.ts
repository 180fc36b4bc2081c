import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Console, Effect, Exit, Logger, References } from "effect"
import { Command } from "effect/cli"
import { sandbox } from "../../../src/cli/SandboxCommand.ts"

/**
 * The command `sandbox` in a process of its own, with the arguments of this script. It logs JSON to standard error, and
 * exits with 0 after a signal.
 */
Command.run(sandbox, { version: "0.0.0" }).pipe(
  Effect.provide(NodeServices.layer),
  Effect.provide(Logger.layer([Logger.withConsoleError(Logger.formatJson)])),
  Effect.provideService(References.LogToStderr, true),
  Effect.tapCause((cause) =>
    Cause.hasInterruptsOnly(cause) ? Effect.void : Console.error(`error: ${String(Cause.squash(cause))}`)
  ),
  (program) =>
    NodeRuntime.runMain(program, {
      disableErrorReporting: true,
      teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
    })
)
