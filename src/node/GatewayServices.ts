/**
 * The services of a gateway process, each on its pool. They store payloads as `PayloadCipher` says.
 */
import * as Layer from "effect/Layer"
import { Grants } from "../services/Grants.ts"
import { OperationFeed } from "../services/OperationFeed.ts"
import { OperationLedger } from "../services/OperationLedger.ts"
import { OperationStore } from "../services/OperationStore.ts"
import { ProgramVersion } from "../services/queue/Maintenance.ts"
import { SubmissionQueue } from "../services/queue/SubmissionQueue.ts"
import { Readiness } from "../services/Readiness.ts"
import { GrantVerifier } from "../services/verification/GrantVerifier.ts"
import { PgAcceptanceSignal } from "./postgres/PgAcceptanceSignal.ts"
import { ListPool, ProbePool, ReaderPool, WorkerPool, WriterPool } from "./postgres/Pools.ts"
import { manifest } from "./process/Invocation.ts"

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
