/**
 * Worker, rescuer and reconciler in one layer: they move accepted operations to their outcome. Beside them, the
 * maintenance loops keep change tokens valid and figures cheap, and the process reports itself to operators. Read this file of the room
 * `submission` first.
 */
import * as Layer from "effect/Layer"
import type * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import type { InvalidSetting } from "../domain/InvalidSetting.ts"
import type { UnsafeDatabase } from "../domain/Submission.ts"
import type { SubmissionQueue } from "../services/queue/SubmissionQueue.ts"
import type { StoreUnavailable } from "../services/StoreUnavailable.ts"
import { Rescuer } from "./attempts/Rescuer.ts"
import { SubmissionWorker } from "./attempts/SubmissionWorker.ts"
import * as MaintenanceLoops from "./MaintenanceLoops.ts"
import { layerCircuitBreaker } from "./providers/Circuit.ts"
import type { Providers } from "./providers/Providers.ts"
import { Reconciler } from "./reads/Reconciler.ts"
import * as WorkerReports from "./WorkerReports.ts"

/**
 * The same without the reconciler, for a process that builds it apart: its routes give it hints, and do not wait for the start of
 * the workers. Provide the same `CircuitBreaker` to both.
 *
 * @internal
 */
export const layerWithoutReconciler: Layer.Layer<
  never,
  UnsafeDatabase | StoreUnavailable | InvalidSetting,
  SubmissionQueue | Providers | CircuitBreaker.CircuitBreaker
> = Layer.mergeAll(
  SubmissionWorker.layer,
  Rescuer.layer,
  MaintenanceLoops.layer,
  WorkerReports.layer
)

/**
 * Submits and settles operations until its scope closes. Run it in any number of processes, in the gateway or apart
 * from it: they coordinate through the database alone. `SubmissionPolicy` sets time limits and concurrency. Dies when
 * the policy is invalid. It provides the `Reconciler`, which takes hints.
 */
export const layer: Layer.Layer<
  Reconciler,
  UnsafeDatabase | StoreUnavailable | InvalidSetting,
  SubmissionQueue | Providers
> = Layer.merge(Reconciler.layer, layerWithoutReconciler).pipe(Layer.provide(layerCircuitBreaker))
