/**
 * A whole gateway process as one layer: the endpoints of an application, the gateway's endpoints, and the workers. The commands
 * `serve`, `work` and `console` are presets of it.
 *
 * The room `node`: all that binds to Node and the driver. Read this file first.
 *
 *     GatewayApp.run({
 *       api: PaymentsApi,
 *       routes: PaymentsRoutes,
 *       providers: Providers.layer({ "first-bank": FirstBank.layer })
 *     })
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import type * as HttpApi from "effect/http-api/HttpApi"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import type * as HttpRouter from "effect/http/HttpRouter"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { isSqlError } from "effect/sql/SqlError"
import { InvalidSetting } from "../domain/InvalidSetting.ts"
import { ServerVersion } from "../domain/McpResource.ts"
import { BaseUrl } from "../server/gate/BaseUrl.ts"
import { Lifecycle } from "../server/gate/Lifecycle.ts"
import { Problems } from "../server/gate/ProblemResponses.ts"
import { layerServer } from "../server/Gateway.ts"
import { MutationEndpoints } from "../server/mutations/MutationEndpoints.ts"
import { Grants } from "../services/Grants.ts"
import { migrate } from "../services/Migrations.ts"
import { sqlState } from "../services/StoreUnavailable.ts"
import { layerCircuitBreaker } from "../submission/providers/Circuit.ts"
import { Providers } from "../submission/providers/Providers.ts"
import { Reconciler } from "../submission/reads/Reconciler.ts"
import { SubmissionPolicy } from "../submission/SubmissionPolicy.ts"
import * as Submission from "../submission/SubmissionProcesses.ts"
import {
  type Failure,
  type GatewayParts,
  type Incomplete,
  type Missing,
  OwnVerifier,
  QueueServices,
  ReadServices,
  WriteServices
} from "./GatewayParts.ts"
import { layerAllowedOrigins, layerRateLimitOfEnvironment } from "./http/HttpSettings.ts"
import { type AdminAddress, adminUrl, listensForAdmin, requireFree } from "./http/ListenAddress.ts"
import * as NodeServer from "./http/NodeServer.ts"
import * as ProviderHttpClient from "./http/ProviderHttpClient.ts"
import { Database } from "./postgres/Database.ts"
import { databaseAs, type DatabaseUrls, readRoleUrl } from "./postgres/DatabaseRoles.ts"
import { MigrationPool, ProvisioningPool } from "./postgres/Pools.ts"
import * as Instrumentation from "./process/Instrumentation.ts"
import { manifest } from "./process/Invocation.ts"
import { Observability } from "./process/Observability.ts"
import { layerPayloadKeys } from "./process/PayloadKeys.ts"
import { type ProcessSettings, readSettings, type Setting } from "./process/ProcessSettings.ts"
import { Platform, runProgram } from "./process/runProgram.ts"

export type { Failure, GatewayParts, Incomplete, Missing, ProcessSettings, Setting }

/** The default parts, for layers that change one service of them. */
export { QueueServices, ReadServices, WriteServices }

/** The options of a gateway process: its settings, and its parts. Every one has a default. */
export interface GatewayAppOptions extends ProcessSettings, GatewayParts {
  /**
   * The contracts of `routes`. One document describes their endpoints and the gateway's, under the title and version of
   * the first one, and other methods on their paths are 405.
   */
  readonly api?: HttpApi.Constraint | ReadonlyArray<HttpApi.Constraint>
  /**
   * What the process serves: `reads` alone, which need no writer, also mutation endpoints, or `nothing`, if it has only workers and
   * the admin listener. Default: `mutations`.
   */
  readonly serves?: "mutations" | "reads" | "nothing"
  /**
   * The listener for operators, with its routes: `AdminListener.layer()`. It listens at `adminPort`. Default: none, and a process
   * with `adminPort` does not start.
   */
  readonly admin?: (address: AdminAddress) => Layer.Layer<never, unknown, unknown>
  /** Whether missing migrations are applied at the start. Default: true. */
  readonly migrate?: boolean
  /**
   * URLs of the database for single roles (docs/postgresql.md), or else OWNER_DATABASE_URL, READER_DATABASE_URL,
   * PROVISIONER_DATABASE_URL and WRITER_DATABASE_URL. A role without a URL connects with `databaseUrl`.
   */
  readonly databases?: DatabaseUrls
}

type Settings = Effect.Success<ReturnType<typeof readSettings>>

type Part = Layer.Layer<never, unknown, unknown>

const accepts = ({ serves = "mutations" }: GatewayAppOptions): boolean => serves === "mutations"

const apisOf = ({ api = [] }: GatewayAppOptions): ReadonlyArray<HttpApi.Constraint> =>
  Array.isArray(api) ? api : [api as HttpApi.Constraint]

/** Registers grants as the provisioner. A process that accepts operations does so as the writer, unless there is a provisioner. */
const registrationsOf = ({ databases }: GatewayAppOptions, Writes: WritesOf) => {
  const Provisioner = Layer.fresh(Grants.layer).pipe(
    Layer.provide(ProvisioningPool),
    Layer.provide(databaseAs("provisioner", databases))
  )
  return Writes === null ? Provisioner : Layer.merge(
    Writes,
    Layer.unwrap(Effect.map(readRoleUrl("provisioner", databases), (url) => Option.isSome(url) ? Provisioner : Writes))
  )
}

/** The verifier. Without one, the process accepts the tokens that the gateway itself issued. */
const verifierOf = (options: GatewayAppOptions, Writes: WritesOf): NonNullable<GatewayParts["verifier"]> => {
  const Reader = databaseAs("reader", options.databases)
  return options.verifier === undefined
    ? Layer.provide(OwnVerifier, Reader)
    : options.verifier.pipe(
      Layer.provide(registrationsOf(options, Writes)),
      Layer.provide([Reader, FetchHttpClient.layer])
    )
}

/** Builds a layer once, also for two layers that need it. A layer made by `provide` would be built for each. */
const once = <A, E, R>(layer: Layer.Layer<A, E, R>): Layer.Layer<A, E, R> =>
  Layer.fromBuildMemo((memoMap, scope) => Layer.buildWithMemoMap(layer, memoMap, scope))

/** The adapters of this process, and the payloads that they declare for its ledger. Null: it has no providers. */
const adaptersOf = ({ providerClient = ProviderHttpClient.layer(), providers }: GatewayAppOptions) => {
  if (providers === undefined) return null
  const Adapters = once(Layer.provide(providers, providerClient))
  return { Adapters, Payloads: Layer.provide(Providers.payloads, Adapters) }
}

type AdaptersOf = ReturnType<typeof adaptersOf>

/** Where operations are accepted and grants issued. Null: the process accepts none. */
const writesOf = (options: GatewayAppOptions, adapters: AdaptersOf) => {
  const { databases, writes = WriteServices } = options
  return accepts(options)
    ? writes.pipe(Layer.provide(adapters?.Payloads ?? Layer.empty), Layer.provide(databaseAs("writer", databases)))
    : null
}

type WritesOf = ReturnType<typeof writesOf>

const servicesOf = (options: GatewayAppOptions, baseUrl: string, adapters: AdaptersOf): Part => {
  const { databases, lifecycle = Lifecycle.layer(), reads = ReadServices } = options
  const Writes = writesOf(options, adapters)
  return Layer.mergeAll(
    Layer.provide(reads, databaseAs("reader", databases)),
    Writes ?? Layer.empty,
    verifierOf(options, Writes),
    lifecycle,
    BaseUrl.layer(baseUrl)
  )
}

/** The policy of the workers. Its worker id is `WORKER_ID`, unless the policy has one. */
const Policy = Layer.unwrap(Effect.gen(function*() {
  const policy = yield* SubmissionPolicy
  const workerId = policy.workerId ?? Option.getOrNull(yield* Config.option(Config.String("WORKER_ID")))
  return Layer.succeed(SubmissionPolicy, { ...policy, workerId })
}))

/**
 * The reconciler, which takes hints of the routes, and the other workers, if the process has providers. They share the queue, so
 * that the process listens on one connection. Routes need the reconciler alone, and do not wait for the start of the workers.
 */
const workersOf = (options: GatewayAppOptions, adapters: AdaptersOf) => {
  const { databases, queue = QueueServices } = options
  const Queue = once(Layer.provide(queue, databaseAs("writer", databases)))
  if (adapters === null) {
    return {
      Reconciling: accepts(options) ? Layer.provide(Reconciler.layerHints, Queue) : Layer.empty,
      Workers: Layer.empty
    }
  }
  const Services = once(Layer.mergeAll(layerCircuitBreaker, adapters.Adapters, Queue, Policy))
  return {
    Reconciling: Layer.provide(Reconciler.layer, Services),
    Workers: Layer.provide(Submission.layerWithoutReconciler, Services)
  }
}

/** SQLSTATE of a role that may not do what it tries. */
const insufficientPrivilege = "42501"

const mayNotMigrate = (setting: string) =>
  new InvalidSetting({
    message:
      `the role of ${setting} may not apply migrations: set OWNER_DATABASE_URL to the owner of the database, or run `
      + "`financial-agents-gateway migrate` as the owner first, and start with --no-migrate (in GatewayApp: migrate: false)"
  })

const migrationOf = ({ databases, migrate: isMigrated = true }: GatewayAppOptions) =>
  isMigrated
    ? Layer.effectDiscard(Effect.gen(function*() {
      const { setting = "DATABASE_URL" } = yield* Database
      const applied = yield* Effect.mapError(
        Effect.provide(migrate, MigrationPool),
        (error) => isSqlError(error) && sqlState(error) === insufficientPrivilege ? mayNotMigrate(setting) : error
      )
      if (applied.length === 0) return
      yield* Effect.annotateLogs(Effect.logInfo("Applied migrations"), {
        count: applied.length,
        first: applied[0],
        last: applied.at(-1)
      })
    })).pipe(Layer.provide(databaseAs("owner", databases)))
    : Layer.empty

/** Settings that only `cluster` heeds. They must not be ignored in silence. */
const refuseClusterSettings = Layer.effectDiscard(Effect.gen(function*() {
  for (const name of ["DATABASE_SYNCHRONOUS", "DATABASE_READ_URL", "WITNESS"]) {
    const value = (yield* Config.String(name).pipe(Config.withDefault(""))).trim()
    if (value === "" || value === "off") continue
    return yield* new InvalidSetting({
      message: `${name} is set, and the application has no cluster: pass PostgresCluster.layer`
    })
  }
}))

/** Fails before an embedded database starts, if the process could not listen. A listener of its own decides itself. */
const requirePorts = ({ database, listener }: GatewayAppOptions, { admin, server }: Settings) =>
  database !== undefined
    ? Effect.void
    : requireFree([...server === null || listener !== undefined ? [] : [server], ...listensForAdmin(admin)])

const databaseOf = ({ database }: GatewayAppOptions, settings: Settings) => database ?? Database.layer(settings)

/** The endpoints on their listener, with their services, and the workers beside them. */
const serverOf = (
  options: GatewayAppOptions,
  settings: NodeServer.NodeServerOptions,
  admin: AdminAddress | null,
  adapters: AdaptersOf
): Part => {
  const { Reconciling, Workers } = workersOf(options, adapters)
  const { agents, listener = NodeServer.layer(settings), routes = Layer.empty, started = Layer.empty } = options
  type Routes = Layer.Layer<never, unknown, HttpRouter.HttpRouter>
  const version = Layer.succeed(ServerVersion, manifest.version)
  const Served = layerServer(
    routes as Routes,
    apisOf(options),
    agents === undefined ? undefined : Layer.provide(agents as Routes, version)
  )
  const Mutations = accepts(options) ? MutationEndpoints.layer : Layer.empty
  return Layer.merge(NodeServer.layerListening(settings, admin), started).pipe(
    Layer.provide([Served, Workers]),
    Layer.provide(Reconciling),
    // The services are built before the listener: a shared port gets connections from the start.
    Layer.provide([Mutations, Problems.layer, listener]),
    Layer.provide(servicesOf(options, settings.baseUrl, adapters)),
    Layer.provide([options.rateLimits ?? layerRateLimitOfEnvironment, layerAllowedOrigins])
  )
}

const workersAlone = (options: GatewayAppOptions, admin: AdminAddress | null, adapters: AdaptersOf): Part => {
  const { started = Layer.empty } = options
  if (adapters === null) return started
  const { Reconciling, Workers } = workersOf(options, adapters)
  const Working = Layer.effectDiscard(
    Effect.flatMap(
      Providers,
      (known) => Effect.annotateLogs(Effect.logInfo("Working"), { providers: [...known.keys()], ...adminUrl(admin) })
    )
  )
  return Layer.merge(Layer.provide(Working, adapters.Adapters), started).pipe(
    Layer.provide(Workers),
    Layer.provide(Reconciling)
  )
}

const processOf = (options: GatewayAppOptions, settings: Settings): Part => {
  const { admin, server } = settings
  const adapters = adaptersOf(options)
  const Process = server === null
    ? workersAlone(options, admin, adapters)
    : serverOf(options, server, admin, adapters)
  const Admin = admin === null || options.admin === undefined ? null : options.admin(admin)
  const hasPayloads = accepts(options) || adapters !== null
  return Process.pipe(
    Layer.provide(Instrumentation.layer(Admin, databaseAs("reader", options.databases))),
    Layer.provide(migrationOf(options)),
    Layer.provide(Layer.provide(options.cluster ?? refuseClusterSettings, databaseAs("writer", options.databases))),
    Layer.provide([
      databaseOf(options, settings),
      options.payloadKeys ?? (hasPayloads ? layerPayloadKeys : Layer.empty),
      options.references ?? Layer.empty
    ]),
    Layer.provide(Platform)
  )
}

/**
 * The process: it migrates the database, serves the routes of the application beside the gateway's, and runs the workers
 * of `providers`. When its scope closes, it refuses new requests and finishes the running ones. The workers then claim
 * nothing more, and attempts under way may finish within `drainTimeout` of the `SubmissionPolicy`.
 *
 * A part that needs a service which the process does not have leaves that service open in the type of the layer.
 */
export const layer = <const Options extends GatewayAppOptions>(
  options: Options
): Layer.Layer<never, Failure<Options>, Missing<Options>> =>
  // `Failure` and `Missing` find the types of the parts, which `GatewayParts` hides.
  Layer.unwrap(Effect.gen(function*() {
    const settings = yield* readSettings(options, options)
    yield* requirePorts(options, settings)
    return processOf(options, settings)
  })) as never

/**
 * Runs the process until SIGTERM or SIGINT, and exits with 0 then. A failure is one line on standard error and exit code
 * 1. Logs go to standard error; LOG_LEVEL and OTEL_EXPORTER_OTLP_ENDPOINT configure them as for the command line.
 */
export const run = <const Options extends GatewayAppOptions>(options: Options & Incomplete<Options>): void =>
  runProgram(
    Layer.launch(layer(options as GatewayAppOptions) as Layer.Layer<never, unknown>).pipe(
      Effect.provide(Observability({ serviceName: "financial-agents-gateway" }))
    )
  )
