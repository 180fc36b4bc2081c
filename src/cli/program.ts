/**
 * The command line: every command with the database that it needs.
 *
 * The room `cli`: the commands, one folder each. Read this file first.
 */
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as PostgresCluster from "../cluster/PostgresCluster.ts"
import { type ListenAddress, listensForAdmin, requireFree } from "../node/http/ListenAddress.ts"
import { Database } from "../node/postgres/Database.ts"
import { manifest } from "../node/process/Invocation.ts"
import { warnOfMisspeltSettings } from "../node/process/misspeltSettings.ts"
import { Observability } from "../node/process/Observability.ts"
import { approvals } from "./approvals/ApprovalsCommand.ts"
import { Administration, RequiredSchema } from "./database/Administration.ts"
import { migrateCommand, roles } from "./database/SchemaCommands.ts"
import { switchover } from "./database/SwitchoverCommand.ts"
import { type AdminFlags, adminOf, database } from "./Flags.ts"
import { clients, grants, providers } from "./grants/GrantsCommand.ts"
import { init } from "./InitCommand.ts"
import { mcp } from "./McpCommand.ts"
import { operations } from "./operations/OperationsCommand.ts"
import { presenter } from "./Output.ts"
import { sandbox } from "./SandboxCommand.ts"
import { consoleCommand } from "./serve/ConsoleCommand.ts"
import { serve } from "./serve/ServeCommand.ts"
import { status, StatusServices } from "./status/StatusCommand.ts"
import { work } from "./work/WorkCommand.ts"

const { version } = manifest

const root = Command.make("financial-agents-gateway").pipe(
  Command.withDescription("Gateway and ledger for the operations that financial agents request"),
  Command.withSharedFlags(database)
)

/** The database that the shared flags name, and what its cluster needs. */
const flagged = (options: { readonly mustExist: boolean }) =>
  Layer.provideMerge(
    PostgresCluster.layer,
    Layer.unwrap(Effect.map(root, (flags) => Database.layer({ ...flags, ...options })))
  )

/** For the commands that may be the first: an embedded database is created if there is none. */
const FlaggedDatabase = flagged({ mustExist: false })

/** For all others: in a wrong directory, a new and empty ledger would answer. */
const ExistingDatabase = flagged({ mustExist: true })

/** For `work`: it fails at the start if the database lacks migrations. */
const PreparedDatabase = Layer.provideMerge(RequiredSchema, FlaggedDatabase)

/** Fails before the database starts, if the command could not listen. */
const afterPorts =
  <A, E, R>(database: Layer.Layer<A, E, R>) =>
  ({ host, port, reusePort, ...flags }: AdminFlags & Partial<ListenAddress>) => {
    const admin = adminOf(flags)
    const served = host === undefined || port === undefined ? [] : [{ host, port, reusePort: reusePort ?? false }]
    const addresses = [
      ...served,
      ...listensForAdmin(admin === null ? null : { host: admin.adminHost, port: admin.adminPort })
    ]
    return Layer.unwrap(Effect.as(requireFree(addresses), database))
  }

const AdministeredDatabase = Layer.provideMerge(Administration, ExistingDatabase)

/** The same for a group of commands. It has no flags of its own: without a subcommand its input is empty, and it needs no database. */
const administered = ({ name }: { readonly name: string }) => (input: object) =>
  Layer.unwrap(
    Reflect.ownKeys(input).length > 0
      ? Effect.succeed(AdministeredDatabase)
      : Effect.fail(new CliError.ShowHelp({ commandPath: [root.name, name], errors: [] }))
  )

const ObservedDatabase = Layer.provideMerge(StatusServices, ExistingDatabase)

const gateway = root.pipe(
  Command.withSubcommands([
    Command.provide(serve, afterPorts(FlaggedDatabase)),
    Command.provide(work, afterPorts(PreparedDatabase)),
    Command.provide(
      consoleCommand,
      ({ host, port }) =>
        afterPorts(Layer.provideMerge(RequiredSchema, ExistingDatabase))({
          adminHost: host,
          adminPort: Option.some(port)
        })
    ),
    mcp,
    sandbox,
    init,
    Command.provide(migrateCommand, FlaggedDatabase),
    roles,
    Command.provide(status, ObservedDatabase),
    Command.provide(grants, administered(grants)),
    Command.provide(clients, administered(clients)),
    Command.provide(providers, administered(providers)),
    Command.provide(operations, administered(operations)),
    Command.provide(approvals, administered(approvals)),
    Command.provide(switchover, AdministeredDatabase)
  ])
)

/** Runs the command of the arguments. The platform stays open. */
export const program = warnOfMisspeltSettings.pipe(
  Effect.andThen(Command.run(gateway, { version })),
  Effect.provide(Observability({ serviceName: "financial-agents-gateway", serviceVersion: version })),
  Effect.provide(CliOutput.layerPresenter(presenter))
)
