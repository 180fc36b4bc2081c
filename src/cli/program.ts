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
import * as Stdio from "effect/Stdio"
import * as PostgresCluster from "../cluster/PostgresCluster.ts"
import { type ListenAddress, listensForAdmin, requireFree } from "../node/http/ListenAddress.ts"
import { Database } from "../node/postgres/Database.ts"
import { manifest } from "../node/process/Invocation.ts"
import { warnOfMisspeltSettings } from "../node/process/misspeltSettings.ts"
import { Observability } from "../node/process/Observability.ts"
import { Administration, RequiredSchema } from "./database/SchemaCommands.ts"
import { type AdminFlags, adminOf, database } from "./Flags.ts"
import { presenter } from "./Output.ts"

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

/** The commands, each in a function that loads its modules: those of all commands take 15 MiB. */
const commands = {
  serve: async () => Command.provide((await import("./serve/ServeCommand.ts")).serve, afterPorts(FlaggedDatabase)),
  work: async () => Command.provide((await import("./work/WorkCommand.ts")).work, afterPorts(PreparedDatabase)),
  console: async () =>
    Command.provide(
      (await import("./serve/ServeCommand.ts")).consoleCommand,
      ({ host, port }) =>
        afterPorts(Layer.provideMerge(RequiredSchema, ExistingDatabase))({
          adminHost: host,
          adminPort: Option.some(port)
        })
    ),
  mcp: async () => (await import("./McpCommand.ts")).mcp,
  sandbox: async () => (await import("./SandboxCommand.ts")).sandbox,
  init: async () => (await import("./InitCommand.ts")).init,
  migrate: async () => Command.provide((await import("./database/SchemaCommands.ts")).migrateCommand, FlaggedDatabase),
  roles: async () => (await import("./database/SchemaCommands.ts")).roles,
  status: async () => {
    const { status, StatusServices } = await import("./status/StatusCommand.ts")
    return Command.provide(status, Layer.provideMerge(StatusServices, ExistingDatabase))
  },
  grants: async () => {
    const { grants } = await import("./grants/GrantsCommand.ts")
    return Command.provide(grants, administered(grants))
  },
  clients: async () => {
    const { clients } = await import("./grants/GrantsCommand.ts")
    return Command.provide(clients, administered(clients))
  },
  providers: async () => {
    const { providers } = await import("./grants/GrantsCommand.ts")
    return Command.provide(providers, administered(providers))
  },
  operations: async () => {
    const { operations } = await import("./operations/OperationsCommand.ts")
    return Command.provide(operations, administered(operations))
  },
  approvals: async () => {
    const { approvals } = await import("./approvals/ApprovalsCommand.ts")
    return Command.provide(approvals, administered(approvals))
  },
  switchover: async () =>
    Command.provide((await import("./database/SchemaCommands.ts")).switchover, AdministeredDatabase)
}

const isCommand = (name: string | undefined): name is keyof typeof commands =>
  name !== undefined && Object.hasOwn(commands, name)

/** The command that the first argument names. All, if it names none: for help, and for arguments that begin with a flag. */
const load = Effect.fnUntraced(function*([first]: ReadonlyArray<string>) {
  const loaded = isCommand(first) ? [commands[first]] : Object.values(commands)
  return yield* Effect.promise(() => Promise.all(loaded.map((command) => command())))
})

/** Runs the command of the arguments. The platform stays open. */
export const program = warnOfMisspeltSettings.pipe(
  Effect.andThen(Stdio.Stdio.use(({ args }) => Effect.flatMap(args, load))),
  Effect.flatMap((loaded) => Command.run(Command.withSubcommands(root, loaded), { version })),
  Effect.provide(Observability({ serviceName: "financial-agents-gateway", serviceVersion: version })),
  Effect.provide(CliOutput.layerPresenter(presenter))
)
