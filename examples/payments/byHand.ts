/**
 * The same application without `GatewayApp`: every part by hand, for an application that has its own server, router or pools. The
 * database is at DATABASE_URL, and already migrated; the bank is at BANK_URL, with BANK_TOKEN.
 */
import { NodeCrypto } from "@effect/platform-node"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import {
  Database,
  ListPool,
  PgAcceptanceSignal,
  ProbePool,
  ReaderPool,
  WorkerPool,
  WriterPool
} from "financial-agents-gateway/node/Pools"
import * as ProviderHttpClient from "financial-agents-gateway/node/ProviderHttpClient"
import { BaseUrl, GatewayRoutes, Lifecycle, RequestIds } from "financial-agents-gateway/server/Gateway"
import { GrantVerifier } from "financial-agents-gateway/services/GrantVerifier"
import { OperationFeed } from "financial-agents-gateway/services/OperationFeed"
import { layerProviderPayloads, OperationLedger } from "financial-agents-gateway/services/OperationLedger"
import { OperationStore } from "financial-agents-gateway/services/OperationStore"
import { Readiness } from "financial-agents-gateway/services/Readiness"
import { requireAddress } from "financial-agents-gateway/submission/HttpProvider"
import { Providers } from "financial-agents-gateway/submission/Providers"
import { SubmissionQueue } from "financial-agents-gateway/submission/SubmissionProcesses"
import * as Submission from "financial-agents-gateway/submission/SubmissionProcesses"
import * as Bank from "./Bank.ts"
import { PaymentsRoutes } from "./Handlers.ts"

/** Reads operations and their changes, and verifies tokens, on read-only connections. The probe has one of its own. */
const Reads = Layer.mergeAll(OperationStore.layer, OperationFeed.layer, GrantVerifier.layer).pipe(
  Layer.provide([ReaderPool, ListPool]),
  Layer.merge(Readiness.layer.pipe(Layer.provide(ProbePool)))
)

/** Accepts operations. It notifies the workers, and refuses payloads that the bank cannot carry out. */
const Writes = OperationLedger.layer.pipe(
  Layer.provide(layerProviderPayloads({ bank: Bank.payloads })),
  Layer.provide(PgAcceptanceSignal),
  Layer.provide(WriterPool)
)

const Adapter = Layer.unwrap(
  Effect.map(
    Effect.all([Config.String("BANK_URL"), Config.Redacted("BANK_TOKEN")]),
    ([url, token]) => Bank.layer(requireAddress("BANK_URL", url), token)
  )
)

/** The workers. Leave them out here if they run in processes of their own. */
const Workers = Submission.layer.pipe(
  Layer.provide(Providers.layer({ bank: Adapter })),
  Layer.provide([ProviderHttpClient.layer(), SubmissionQueue.layer, Layer.fresh(PgAcceptanceSignal)]),
  Layer.provide(WorkerPool),
  Layer.provide(NodeCrypto.layer)
)

/** Refuses new requests when the server stops, and finishes the running ones. */
const Drain = Layer.effectDiscard(
  Effect.flatMap(Lifecycle, (lifecycle) => Effect.addFinalizer(() => lifecycle.drain))
)

/** The routes, for the `HttpServer` of your platform. Run the command `migrate` before. */
const Server = Drain.pipe(
  Layer.provideMerge(
    HttpRouter.serve(Layer.merge(GatewayRoutes, PaymentsRoutes), { disableLogger: true, disableListenLog: true })
  ),
  Layer.provide([Reads, Writes]),
  Layer.provide([Lifecycle.layer(), BaseUrl.layer("https://gateway.example"), RequestIds.layer]),
  Layer.provide(NodeCrypto.layer)
)

const AppDatabase = Layer.unwrap(
  Effect.map(
    Config.Redacted("DATABASE_URL"),
    (url) => Database.layer({ databaseUrl: Option.some(url), dataDir: ".data" })
  )
)

export const Application = Layer.merge(Server, Workers).pipe(Layer.provide(AppDatabase))
