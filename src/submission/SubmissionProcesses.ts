/**
 * The moving parts of the write side in one layer: worker, rescuer and reconciler.
 */
import * as Layer from "effect/Layer"
import { UnsafeDatabase } from "../domain/Submission.ts"
import type { StoreUnavailable } from "../services/StoreUnavailable.ts"
import type { SubmissionQueue } from "../services/SubmissionQueue.ts"
import { layerCircuitBreaker } from "./Circuit.ts"
import type { Providers } from "./Providers.ts"
import { Reconciler } from "./Reconciler.ts"
import { Rescuer } from "./Rescuer.ts"
import { SubmissionWorker } from "./SubmissionWorker.ts"

export { UnsafeDatabase }

/**
 * Moves operations by themselves for as long as its scope is open. Run it in as many processes as you like, beside the
 * gateway or apart from it: they need nothing but the database. `SubmissionPolicy` says how patient it is.
 */
export const layer: Layer.Layer<never, UnsafeDatabase | StoreUnavailable, SubmissionQueue | Providers> = Layer.mergeAll(
  SubmissionWorker.layer,
  Rescuer.layer,
  Reconciler.layer
).pipe(Layer.provide(layerCircuitBreaker))
