/**
 * The application as layers: its endpoint and the gateway's endpoints on one router, and the workers beside them.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import * as PgAcceptanceSignal from "financial-agents-gateway/node/PgAcceptanceSignal"
import { ListPool, ProbePool, ReaderPool, WorkerPool, WriterPool } from "financial-agents-gateway/node/Pools"
import * as ProviderHttpClient from "financial-agents-gateway/node/ProviderHttpClient"
import { GatewayRoutes } from "financial-agents-gateway/server/Gateway"
import { Lifecycle } from "financial-agents-gateway/server/Lifecycle"
import { Grants } from "financial-agents-gateway/services/Grants"
import { GrantVerifier } from "financial-agents-gateway/services/GrantVerifier"
import { OperationLedger } from "financial-agents-gateway/services/OperationLedger"
import { OperationStore } from "financial-agents-gateway/services/OperationStore"
import * as ProviderPayloads from "financial-agents-gateway/services/ProviderPayloads"
import { Readiness } from "financial-agents-gateway/services/Readiness"
import { SubmissionQueue } from "financial-agents-gateway/services/SubmissionQueue"
import { Providers } from "financial-agents-gateway/submission/Providers"
import * as Submission from "financial-agents-gateway/submission/SubmissionProcesses"
import * as Bank from "./Bank.ts"
import { PaymentsRoutes } from "./Handlers.ts"

/** The provider name of the bank in provider connections. */
export const bankName = "bank"

/** The services that read, on read-only connections. */
export const Reads = Layer.merge(
  Layer.mergeAll(OperationStore.layer, GrantVerifier.layer).pipe(Layer.provide([ReaderPool, ListPool])),
  Readiness.layer.pipe(Layer.provide(ProbePool))
)

/**
 * The services that accept operations and issue grants. They notify the workers of each acceptance, and refuse a payment
 * that the bank cannot carry out.
 */
export const Writes = Layer.mergeAll(OperationLedger.layer, Grants.layer).pipe(
  Layer.provide(PgAcceptanceSignal.layer),
  Layer.provide(ProviderPayloads.layer({ [bankName]: Bank.payloads })),
  Layer.provide(WriterPool)
)

/** Sends accepted operations and settles them. To run the workers in separate processes, leave this layer out here. */
export const Workers = (bankUrl: string, bankToken: Redacted.Redacted<string>) =>
  Submission.layer.pipe(
    Layer.provide(Providers.layer({ [bankName]: Bank.layer(bankUrl, bankToken) })),
    Layer.provide(ProviderHttpClient.layer()),
    Layer.provide(SubmissionQueue.layer),
    Layer.provide(PgAcceptanceSignal.layer),
    Layer.provide(WorkerPool)
  )

/** Serves both APIs. When it stops, it refuses new requests and finishes the running ones. */
export const Server = Layer.effectDiscard(
  Effect.flatMap(Lifecycle, (lifecycle) => Effect.addFinalizer(() => lifecycle.drain))
).pipe(
  Layer.provideMerge(
    HttpRouter.serve(Layer.mergeAll(GatewayRoutes, PaymentsRoutes), { disableLogger: true, disableListenLog: true })
  )
)
