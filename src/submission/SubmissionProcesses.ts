/**
 * Worker, rescuer and reconciler in one layer: they move accepted operations to their outcome. Beside them, the
 * maintenance loops keep change tokens valid and figures cheap, and the process reports itself to operators.
 *
 * The room `submission`: the write side at work. Read this file first.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import type { InvalidSetting } from "../domain/InvalidSetting.ts"
import type { UnsafeDatabase } from "../domain/Submission.ts"
import { Maintenance } from "../services/queue/Maintenance.ts"
import type { StoreUnavailable } from "../services/StoreUnavailable.ts"
import { SubmissionQueue } from "../services/SubmissionQueue.ts"
import { Rescuer } from "./attempts/Rescuer.ts"
import { SubmissionWorker } from "./attempts/SubmissionWorker.ts"
import { layerCircuitBreaker } from "./providers/Circuit.ts"
import type { Providers } from "./providers/Providers.ts"
import { Reconciler } from "./reads/Reconciler.ts"
import { repeatStatement } from "./storeStatements.ts"
import * as WorkerReports from "./WorkerReports.ts"

export { defaultPolicy, SubmissionPolicy, type SubmissionPolicyShape } from "./SubmissionPolicy.ts"
export { Reconciler, SubmissionQueue, type UnsafeDatabase }

/** A failover ends the tokens that were issued after the last mark. */
const markInterval = Duration.seconds(1)

/** With more than one process, most calls find that another one has folded a moment ago. */
const foldInterval = Duration.seconds(5)

/**
 * What the workers do for the ledger as a whole. They record how far its changes have come, so that change tokens survive a failover. They
 * fold the counts of operations, so that figures stay cheap to read. It runs until its scope closes, the first time at once: the feed of a new
 * timeline begins with its first mark.
 *
 * @internal
 */
export const layerMaintenance: Layer.Layer<never, never, Maintenance> = Layer.effectDiscard(Effect.gen(function*() {
  const { foldCounts, markChanges } = yield* Maintenance
  yield* repeatStatement({
    statement: markChanges,
    failure: "Could not mark the changes; the next mark tries again",
    interval: markInterval
  })
  yield* repeatStatement({
    statement: foldCounts,
    failure: "Could not fold the counts of operations; the next fold tries again",
    interval: foldInterval
  })
}))

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
  layerMaintenance,
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
