#!/usr/bin/env node
/**
 * The command line: configuration, wiring, and the one place where the program runs.
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
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Otlp from "effect/observability/Otlp"
import * as OtlpSerialization from "effect/observability/OtlpSerialization"
import * as Option from "effect/Option"
import * as References from "effect/References"
import { randomUUID } from "node:crypto"
import { createRequire } from "node:module"
import { database } from "./cli/Flags.ts"
import { clients, grants, providers } from "./cli/GrantsCommand.ts"
import { operations } from "./cli/OperationsCommand.ts"
import { CommandFailed, explain, presenter } from "./cli/Output.ts"
import { layerPayloadKeys } from "./cli/PayloadKeys.ts"
import { roles } from "./cli/RolesCommand.ts"
import { sandbox } from "./cli/SandboxCommand.ts"
import { type Listen, makeServe, migrateCommand } from "./cli/ServeCommand.ts"
import { work } from "./cli/WorkCommand.ts"
import type { RequestId } from "./domain/RequestId.ts"
import { Database } from "./node/Database.ts"
import { createListener, logDroppedConnections } from "./node/NodeListener.ts"
import * as PgAcceptanceSignal from "./node/PgAcceptanceSignal.ts"
import { MigrationPool, WriterPool } from "./node/Pools.ts"
import { logProblem } from "./server/ProblemResponses.ts"
import { GrantBlockers } from "./services/GrantBlockers.ts"
import { Grants } from "./services/Grants.ts"
import { makeIsMigrated, migrate } from "./services/Migrations.ts"
import { OperationLedger } from "./services/OperationLedger.ts"
import { SubmissionQueue } from "./services/SubmissionQueue.ts"

// Read rather than imported: the file lies outside of what is compiled.
const { version } = createRequire(import.meta.url)("../package.json") as { readonly version: string }

const listen: Listen = ({ baseUrl, host, maxConnections, port }) =>
  Layer.unwrap(Effect.contextWith((context: Context.Context<never>) => {
    const run = Effect.runForkWith(context)
    return Effect.succeed(NodeHttpServer.layerServer(
      () =>
        createListener({
          baseUrl,
          newRequestId: () => randomUUID() as RequestId,
          onProblem: (problem) => run(logProblem(problem)),
          maxConnections,
          onDropped: (count) => run(logDroppedConnections(count, maxConnections))
        }),
      { host, port, gracefulShutdownTimeout: "10 seconds" }
    ))
  }))

/** An embedded database is brought up to date in passing; the schema of any other is its owner's affair. */
const requireSchema = Effect.gen(function*() {
  const { isEmbedded } = yield* Database
  if (isEmbedded) return yield* Effect.asVoid(migrate)
  if (yield* yield* makeIsMigrated) return
  return yield* new CommandFailed({ message: "the database lacks migrations: run `financial-agents-gateway migrate`" })
}).pipe(Effect.provide(MigrationPool))

const Administration = Layer.mergeAll(
  Grants.layer,
  GrantBlockers.layer,
  OperationLedger.layer,
  SubmissionQueue.layer,
  Layer.effectDiscard(requireSchema)
).pipe(
  Layer.provide(PgAcceptanceSignal.layer),
  Layer.provide(layerPayloadKeys),
  Layer.provide(WriterPool)
)

const root = Command.make("financial-agents-gateway").pipe(
  Command.withDescription("The gateway and ledger through which financial agents learn what became of their work"),
  Command.withSharedFlags(database)
)

/** The database that the flags name, for the commands that need one. */
const FlaggedDatabase = Layer.unwrap(Effect.map(root, Database.layer))

const AdministeredDatabase = Layer.provideMerge(Administration, FlaggedDatabase)

const PreparedDatabase = Layer.provideMerge(Layer.effectDiscard(requireSchema), FlaggedDatabase)

const gateway = root.pipe(
  Command.withSubcommands([
    Command.provide(makeServe(listen), FlaggedDatabase),
    Command.provide(work, PreparedDatabase),
    sandbox,
    Command.provide(migrateCommand, FlaggedDatabase),
    roles,
    Command.provide(grants, AdministeredDatabase),
    Command.provide(clients, AdministeredDatabase),
    Command.provide(providers, AdministeredDatabase),
    Command.provide(operations, AdministeredDatabase)
  ])
)

/** Spans are made only when there is somewhere to send them. */
const Tracing = Layer.unwrap(
  Effect.map(
    Config.option(Config.String("OTEL_EXPORTER_OTLP_ENDPOINT")),
    Option.match({
      onNone: () => Layer.succeed(References.TracerEnabled, false),
      onSome: (baseUrl) =>
        Otlp.layer({ baseUrl, resource: { serviceName: "financial-agents-gateway", serviceVersion: version } })
          .pipe(Layer.provide(OtlpSerialization.layerJson), Layer.provide(FetchHttpClient.layer))
    })
  )
)

/** In any case: the environment says `debug`, Effect says `Debug`. */
const logLevel = Effect.gen(function*() {
  const text = yield* Config.String("LOG_LEVEL").pipe(Config.withDefault("Info"))
  const level = LogLevel.values.find((level) => level.toLowerCase() === text.toLowerCase())
  return level ?? (yield* new CommandFailed({ message: `LOG_LEVEL must be one of ${LogLevel.values.join(", ")}` }))
})

const Logging = Layer.mergeAll(
  Logger.layer([process.stderr.isTTY ? Logger.consolePretty() : Logger.withConsoleError(Logger.formatJson)]),
  Layer.succeed(References.LogToStderr, true),
  Layer.effect(References.MinimumLogLevel, logLevel)
)

const Platform = Layer.mergeAll(
  NodeServices.layer,
  NodeHttpServer.layerHttpServices,
  NodeCrypto.layerAead,
  NodeCrypto.layerDigest,
  NodeCrypto.layerSecureRandom
)

// A closed terminal asks the same as SIGTERM does. Without a terminal the signal is nohup's, or a supervisor's.
if (process.stdout.isTTY) process.on("SIGHUP", () => process.kill(process.pid, "SIGTERM"))

gateway.pipe(
  Command.run({ version }),
  Effect.provide(Platform),
  Effect.provide(Tracing.pipe(Layer.provideMerge(Logging))),
  Effect.provide(CliOutput.layerPresenter(presenter)),
  Effect.tapCause((cause) =>
    Cause.hasInterruptsOnly(cause) || CliError.isCliError(Cause.squash(cause))
      ? Effect.void
      : Console.error(`error: ${explain(Cause.squash(cause))}`)
  ),
  (program) =>
    NodeRuntime.runMain(program, {
      disableErrorReporting: true,
      // A signal is how a server is asked to stop: having stopped, it did what it was asked.
      teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
    })
)
