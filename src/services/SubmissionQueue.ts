/**
 * The work of the submission workers, from the claim of an operation to the record of its outcome: the layers of the contracts in
 * the room `services/queue`.
 *
 * The database alone coordinates
 * the workers, with row locks, compare-and-set and its own clock. So any number of them may run, on any number of machines.
 */
import * as Context from "effect/Context"
import type * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type { MemoryLedger } from "./memory/MemoryLedger.ts"
import { makeMemory } from "./memory/MemorySubmissionQueue.ts"
import { Claims } from "./queue/Claims.ts"
import { Holds } from "./queue/Holds.ts"
import { Maintenance } from "./queue/Maintenance.ts"
import { Outcomes } from "./queue/Outcomes.ts"
import { ProviderLimits } from "./queue/ProviderLimits.ts"
import { Rescues } from "./queue/Rescues.ts"
import { StatusReads } from "./queue/StatusReads.ts"
import { makeSql } from "./sql/queue/SqlSubmissionQueue.ts"

/** The services of worker, rescuer and reconciler. Applications provide their layer, and call nothing of them. */
export type SubmissionQueue =
  | Claims
  | Outcomes
  | StatusReads
  | Holds
  | Rescues
  | ProviderLimits
  | Maintenance

type Implementation = Effect.Success<typeof makeSql> | Effect.Success<typeof makeMemory>

const servicesOf = (queue: Implementation): Context.Context<SubmissionQueue> =>
  Context.make(Claims, queue).pipe(
    Context.add(Outcomes, queue),
    Context.add(StatusReads, queue),
    Context.add(Holds, queue),
    Context.add(Rescues, queue),
    Context.add(ProviderLimits, queue),
    Context.add(Maintenance, queue)
  )

/** The layers of `SubmissionQueue`, on PostgreSQL and in memory. */
export const SubmissionQueue: {
  readonly layer: Layer.Layer<SubmissionQueue, never, SqlClient.SqlClient | Digest.Digest>
  readonly layerMemory: Layer.Layer<SubmissionQueue, never, MemoryLedger | Digest.Digest>
} = {
  layer: Layer.effectContext(Effect.suspend(() => Effect.map(makeSql, servicesOf))),
  layerMemory: Layer.effectContext(Effect.suspend(() => Effect.map(makeMemory, servicesOf)))
}
