/**
 * The parts of a gateway process that an application adds or replaces, and the services that each part may use.
 * The services of a gateway process, each on its pool. They store payloads as `PayloadCipher` says.
 */
import type { ConfigError } from "effect/Config"
import type { HttpClient } from "effect/http/HttpClient"
import type { HttpRouter, Request } from "effect/http/HttpRouter"
import type { HttpServer } from "effect/http/HttpServer"
import type { ServeError } from "effect/http/HttpServerError"
import * as Layer from "effect/Layer"
import type { MigrationError } from "effect/sql/Migrator"
import type { SqlError } from "effect/sql/SqlError"
import type { Gate } from "../api/Middleware.ts"
import type { MutationRequest } from "../api/MutationEndpoint.ts"
import type { InvalidSetting } from "../domain/InvalidSetting.ts"
import type { UnsafeDatabase } from "../domain/Submission.ts"
import type { BaseUrl } from "../server/gate/BaseUrl.ts"
import type { Lifecycle } from "../server/gate/Lifecycle.ts"
import type { Problems } from "../server/gate/ProblemResponses.ts"
import type { MutationEndpoints } from "../server/mutations/MutationEndpoints.ts"
import { Grants } from "../services/Grants.ts"
import { OperationFeed } from "../services/OperationFeed.ts"
import { OperationLedger } from "../services/OperationLedger.ts"
import { OperationStore } from "../services/OperationStore.ts"
import { ProgramVersion } from "../services/queue/Maintenance.ts"
import { Readiness } from "../services/Readiness.ts"
import type { StoreUnavailable } from "../services/StoreUnavailable.ts"
import { SubmissionQueue } from "../services/SubmissionQueue.ts"
import type { TokenCipher } from "../services/TokenCipher.ts"
import { GrantVerifier } from "../services/verification/GrantVerifier.ts"
import type { Providers } from "../submission/providers/Providers.ts"
import type { Reconciler } from "../submission/reads/Reconciler.ts"
import type { LocalPostgresError } from "./embedded/LocalPostgres.ts"
import type { Database } from "./postgres/Database.ts"
import { PgAcceptanceSignal } from "./postgres/PgAcceptanceSignal.ts"
import { ListPool, ProbePool, ReaderPool, WorkerPool, WriterPool } from "./postgres/Pools.ts"
import { manifest } from "./process/Invocation.ts"
import type { Platform } from "./process/runProgram.ts"

type Part<A> = Layer.Layer<A, unknown, unknown>

/** The parts, each a layer. A part without a layer has the default of the gateway. */
export interface GatewayParts {
  /**
   * The routes of the application, such as `HttpApiBuilder.layer(api)` with its handlers. Default: none. Middleware of the router
   * (`HttpRouter.middleware` with `global`) sees the gateway's own requests too.
   */
  readonly routes?: Part<never>
  /** The endpoint for language-model agents: `McpRoutes(tools)`, with MCP tools of the application. Default: no `/mcp`. */
  readonly agents?: Part<never>
  /** Runs once the process listens and its workers run. Default: nothing. */
  readonly started?: Part<never>
  /**
   * The providers that this process submits to: `Providers.layer({ name: adapter })`. The ledger accepts the payloads that
   * they declare. Default: none, because the workers run in other processes.
   */
  readonly providers?: Part<Providers>
  /** Finds the grant of a credential. Default: the tokens that the gateway itself issued. */
  readonly verifier?: Part<GrantVerifier>
  /** Where operations are read. Default: PostgreSQL. */
  readonly reads?: Part<OperationStore | OperationFeed | Readiness | TokenCipher>
  /** Where operations are accepted and grants issued. Default: PostgreSQL. */
  readonly writes?: Part<Grants | OperationLedger>
  /** The queue of the workers. Default: PostgreSQL. */
  readonly queue?: Part<SubmissionQueue>
  /** How to connect to the database. Default: `databaseUrl`, or an embedded PostgreSQL in `dataDir`. */
  readonly database?: Part<Database>
  /**
   * What a PostgreSQL cluster with failovers needs: `PostgresCluster.layer`. Default: the database is one server, and the settings of a cluster are
   * refused.
   */
  readonly cluster?: Part<never>
  /** The HTTP server. Default: `NodeListener` at `host` and `port`, with its limits. */
  readonly listener?: Part<HttpServer>
  /** Limits of running requests, and the drain. Default: `Lifecycle.layer()`. */
  readonly lifecycle?: Part<Lifecycle>
  /** The HTTP client of the adapters. Default: `ProviderHttpClient.layer()`. */
  readonly providerClient?: Part<HttpClient>
  /** The cipher of payloads, such as `PayloadCipher.layerAesGcm`. Default: the keys of `PAYLOAD_KEYS`. */
  readonly payloadKeys?: Part<never>
  /** Quotas of requests: `layerRateLimits`. Default: `RATE_LIMIT` and `TRUSTED_PROXIES`. */
  readonly rateLimits?: Part<never>
  /**
   * Layers of references, such as `SubmissionPolicy` and `ProviderPayloads`. Default: none. A policy without `workerId` gets
   * that of `WORKER_ID`.
   */
  readonly references?: Part<never>
}

type PlatformServices = Layer.Success<typeof Platform>

type RouteServices =
  | PlatformServices
  | BaseUrl
  | Database
  | Gate
  | Grants
  | GrantVerifier
  | HttpRouter
  | Lifecycle
  | MutationEndpoints
  | MutationRequest
  | OperationLedger
  | OperationFeed
  | OperationStore
  | Problems
  | Readiness
  | Reconciler
  | TokenCipher

/** The services that the process has for each part. */
interface Provided {
  readonly routes: RouteServices
  readonly agents: RouteServices
  readonly started: RouteServices | HttpServer
  readonly providers: PlatformServices | Database | HttpClient
  readonly verifier: PlatformServices | Database | Grants | HttpClient | OperationLedger
  readonly reads: PlatformServices | Database
  readonly writes: PlatformServices | Database
  readonly queue: PlatformServices | Database
  readonly database: PlatformServices
  readonly cluster: PlatformServices | Database
  readonly listener: PlatformServices | BaseUrl
  readonly lifecycle: PlatformServices
  readonly providerClient: PlatformServices
  readonly payloadKeys: PlatformServices
  readonly rateLimits: PlatformServices
  readonly references: PlatformServices
}

/** What a layer needs when it is built, and what its routes need for each request. */
type Needs<R> = Request.Without<R> | Request.Only<"GlobalRequires" | "Requires", R>

/** The services that the parts of these options need, and the process does not have. */
export type Missing<Options> = {
  [Name in keyof Options & keyof Provided]: Options[Name] extends Layer.Layer<infer _A, infer _E, infer R>
    ? Exclude<Needs<R>, Provided[Name]>
    : never
}[keyof Options & keyof Provided]

/** Why the process does not start, or stops. */
export type Failure<Options> =
  | ConfigError
  | InvalidSetting
  | LocalPostgresError
  | MigrationError
  | ServeError
  | SqlError
  | StoreUnavailable
  | UnsafeDatabase
  | {
    [Name in keyof Options & keyof Provided]: Options[Name] extends Layer.Layer<infer _A, infer E, infer _R> ? E : never
  }[keyof Options & keyof Provided]

/**
 * Refuses options with a part that misses a service. The error of the compiler names each such part with its services. It
 * does not use `Missing`, because the compiler would print that name instead of the services.
 */
export type Incomplete<Options> = [Missing<Options>] extends [never] ? unknown : {
  readonly "a part needs a service that the process does not have": {
    readonly [
      Name in keyof Options & keyof Provided as [Missing<Pick<Options, Name>>] extends [never] ? never : Name
    ]: Options[Name] extends Layer.Layer<infer _A, infer _E, infer R> ? Exclude<Needs<R>, Provided[Name]> : never
  }
}

/** Reads of operations and of their changes with their tokens, and the readiness probe. */
export const ReadServices = Layer.mergeAll(
  OperationStore.layer.pipe(Layer.provide([ReaderPool, ListPool])),
  OperationFeed.layer.pipe(Layer.provide([ReaderPool, ListPool])),
  Readiness.layer.pipe(Layer.provide(ProbePool))
)

/** Verifies the access tokens that the gateway itself issued. */
export const OwnVerifier = GrantVerifier.layer.pipe(Layer.provide(ReaderPool))

/** Accepts operations and issues grants. Announces each acceptance to the workers. */
export const WriteServices = Layer.merge(Grants.layer, OperationLedger.layer).pipe(
  Layer.provide(PgAcceptanceSignal),
  Layer.provide(WriterPool)
)

/** The queue of the workers, and its signal. */
export const QueueServices = SubmissionQueue.layer.pipe(
  // Fresh: the signal of the workers listens on their pool, also if the process accepts operations on another.
  Layer.merge(Layer.fresh(PgAcceptanceSignal)),
  Layer.provide(WorkerPool),
  Layer.provide(Layer.succeed(ProgramVersion, manifest.version))
)
