#!/usr/bin/env node
/**
 * The command line: every command with the database that it needs, and the one place where the program runs.
 */
import "effect/schema/SchemaJITCompiler/enable"
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Cause from "effect/Cause"
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import { Administration, RequiredSchema } from "./cli/Administration.ts"
import { database } from "./cli/Flags.ts"
import { clients, grants, providers } from "./cli/GrantsCommand.ts"
import { init } from "./cli/InitCommand.ts"
import { manifest } from "./cli/Invocation.ts"
import { migrateCommand } from "./cli/MigrateCommand.ts"
import { Observability } from "./cli/Observability.ts"
import { operations } from "./cli/OperationsCommand.ts"
import { explain, presenter } from "./cli/Output.ts"
import { roles } from "./cli/RolesCommand.ts"
import { sandbox } from "./cli/SandboxCommand.ts"
import { serve } from "./cli/ServeCommand.ts"
import { work } from "./cli/WorkCommand.ts"
import { Database } from "./node/Database.ts"

const { version } = manifest

const root = Command.make("financial-agents-gateway").pipe(
  Command.withDescription("Gateway and ledger for the operations that financial agents request"),
  Command.withSharedFlags(database)
)

/** The database that the shared flags name. */
const FlaggedDatabase = Layer.unwrap(Effect.map(root, Database.layer))

/** The same, for `work`: it fails at the start if the database lacks migrations. */
const PreparedDatabase = Layer.provideMerge(RequiredSchema, FlaggedDatabase)

const AdministeredDatabase = Layer.provideMerge(Administration, FlaggedDatabase)

const gateway = root.pipe(
  Command.withSubcommands([
    Command.provide(serve, FlaggedDatabase),
    Command.provide(work, PreparedDatabase),
    sandbox,
    init,
    Command.provide(migrateCommand, FlaggedDatabase),
    roles,
    Command.provide(grants, AdministeredDatabase),
    Command.provide(clients, AdministeredDatabase),
    Command.provide(providers, AdministeredDatabase),
    Command.provide(operations, AdministeredDatabase)
  ])
)

const Platform = Layer.mergeAll(
  NodeServices.layer,
  NodeHttpServer.layerHttpServices,
  NodeCrypto.layerAead,
  NodeCrypto.layerDigest,
  NodeCrypto.layerSecureRandom
)

// Closing a terminal stops the program like SIGTERM. Without a terminal, nohup or a supervisor sends SIGHUP.
if (process.stdout.isTTY) process.on("SIGHUP", () => process.kill(process.pid, "SIGTERM"))

gateway.pipe(
  Command.run({ version }),
  Effect.provide(Platform),
  Effect.provide(Observability(version)),
  Effect.provide(CliOutput.layerPresenter(presenter)),
  Effect.tapCause((cause) =>
    Cause.hasInterruptsOnly(cause) || CliError.isCliError(Cause.squash(cause))
      ? Effect.void
      : Console.error(`error: ${explain(Cause.squash(cause))}`)
  ),
  (program) =>
    NodeRuntime.runMain(program, {
      disableErrorReporting: true,
      // A signal is the normal way to stop a server, so it is a success.
      teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
    })
)
