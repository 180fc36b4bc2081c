#!/usr/bin/env node
/**
 * The command line: every command with the database that it needs, and the one place where the program runs.
 */
// First, because the modules below need a newer Node than the check.
import "./cli/start/requireNode.ts"
import "./cli/start/restart.ts"
import "effect/schema/SchemaJITCompiler/enable"
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Administration, RequiredSchema } from "./cli/database/Administration.ts"
import { migrateCommand } from "./cli/database/MigrateCommand.ts"
import { roles } from "./cli/database/RolesCommand.ts"
import { switchover } from "./cli/database/SwitchoverCommand.ts"
import { database } from "./cli/Flags.ts"
import { clients, grants, providers } from "./cli/grants/GrantsCommand.ts"
import { init } from "./cli/InitCommand.ts"
import { mcp } from "./cli/mcp/McpCommand.ts"
import { operations } from "./cli/operations/OperationsCommand.ts"
import { presenter } from "./cli/Output.ts"
import { sandbox } from "./cli/SandboxCommand.ts"
import { consoleCommand } from "./cli/serve/ConsoleCommand.ts"
import { serve } from "./cli/serve/ServeCommand.ts"
import { status, StatusServices } from "./cli/status/StatusCommand.ts"
import { work } from "./cli/work/WorkCommand.ts"
import * as PostgresCluster from "./cluster/PostgresCluster.ts"
import { Database } from "./node/postgres/Database.ts"
import { manifest } from "./node/process/Invocation.ts"
import { Observability } from "./node/process/Observability.ts"
import { Platform, runProgram } from "./node/process/runProgram.ts"

const { version } = manifest

const root = Command.make("financial-agents-gateway").pipe(
  Command.withDescription("Gateway and ledger for the operations that financial agents request"),
  Command.withSharedFlags(database)
)

/** The database that the shared flags name, and what its cluster needs. */
const FlaggedDatabase = Layer.provideMerge(PostgresCluster.layer, Layer.unwrap(Effect.map(root, Database.layer)))

/** The same, for `work`: it fails at the start if the database lacks migrations. */
const PreparedDatabase = Layer.provideMerge(RequiredSchema, FlaggedDatabase)

const AdministeredDatabase = Layer.provideMerge(Administration, FlaggedDatabase)

const ObservedDatabase = Layer.provideMerge(StatusServices, FlaggedDatabase)

const gateway = root.pipe(
  Command.withSubcommands([
    Command.provide(serve, FlaggedDatabase),
    Command.provide(work, PreparedDatabase),
    Command.provide(consoleCommand, PreparedDatabase),
    mcp,
    sandbox,
    init,
    Command.provide(migrateCommand, FlaggedDatabase),
    roles,
    Command.provide(status, ObservedDatabase),
    Command.provide(grants, AdministeredDatabase),
    Command.provide(clients, AdministeredDatabase),
    Command.provide(providers, AdministeredDatabase),
    Command.provide(operations, AdministeredDatabase),
    Command.provide(switchover, AdministeredDatabase)
  ])
)

gateway.pipe(
  Command.run({ version }),
  Effect.provide(Platform),
  Effect.provide(Observability({ serviceName: "financial-agents-gateway", serviceVersion: version })),
  Effect.provide(CliOutput.layerPresenter(presenter)),
  // An invalid call was reported already.
  (program) => runProgram(program, { isReported: CliError.isCliError })
)
