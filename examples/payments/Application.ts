/**
 * The application as layers: its endpoint and the gateway's on one router, and the workers beside them.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import * as PgAcceptanceSignal from "../../src/node/PgAcceptanceSignal.ts"
import { ListPool, ProbePool, ReaderPool, WorkerPool, WriterPool } from "../../src/node/Pools.ts"
import * as ProviderHttpClient from "../../src/node/ProviderHttpClient.ts"
import { GatewayRoutes } from "../../src/server/Gateway.ts"
import { Lifecycle } from "../../src/server/Lifecycle.ts"
import { Grants } from "../../src/services/Grants.ts"
import { OperationLedger } from "../../src/services/OperationLedger.ts"
import { OperationStore } from "../../src/services/OperationStore.ts"
import { Readiness } from "../../src/services/Readiness.ts"
import { SubmissionQueue } from "../../src/services/SubmissionQueue.ts"
import { GrantVerifier } from "../../src/services/verification/GrantVerifier.ts"
import { Providers } from "../../src/submission/Providers.ts"
import * as Submission from "../../src/submission/SubmissionProcesses.ts"
import * as Bank from "./Bank.ts"
import { PaymentsRoutes } from "./Handlers.ts"

/** The name by which grants are bound to the bank. */
export const bankName = "bank"

/** The services that read, on connections that cannot write. */
export const Reads = Layer.merge(
  Layer.mergeAll(OperationStore.layer, GrantVerifier.layer).pipe(Layer.provide([ReaderPool, ListPool])),
  Readiness.layer.pipe(Layer.provide(ProbePool))
)

/** Whoever accepts, and tells the workers so. */
export const Writes = Layer.mergeAll(OperationLedger.layer, Grants.layer).pipe(
  Layer.provide(PgAcceptanceSignal.layer),
  Layer.provide(WriterPool)
)

/** Sends what was accepted and settles it. It may as well run in processes of its own: leave it out here, then. */
export const Workers = (bankUrl: string, bankToken: Redacted.Redacted<string>) =>
  Submission.layer.pipe(
    Layer.provide(Providers.layer({ [bankName]: Bank.layer(bankUrl, bankToken) })),
    Layer.provide(ProviderHttpClient.layer()),
    Layer.provide(SubmissionQueue.layer),
    Layer.provide(PgAcceptanceSignal.layer),
    Layer.provide(WorkerPool)
  )

/** Both APIs. When it stops, it lets nobody in any more and those inside finish. */
export const Server = Layer.effectDiscard(
  Effect.flatMap(Lifecycle, (lifecycle) => Effect.addFinalizer(() => lifecycle.drain))
).pipe(
  Layer.provideMerge(
    HttpRouter.serve(Layer.mergeAll(GatewayRoutes, PaymentsRoutes), { disableLogger: true, disableListenLog: true })
  )
)
