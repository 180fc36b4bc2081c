/**
 * The work of the submission workers, from the claim of an operation to the record of its outcome. The room `queue` has the contracts of
 * worker, rescuer and reconciler, and no others. Read this file first.
 *
 * The database alone coordinates
 * the workers, with row locks, compare-and-set and its own clock. So any number of them may run, on any number of machines.
 */
import * as Context from "effect/Context"
import type * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type { MemoryLedger } from "../memory/MemoryLedger.ts"
import { makeMemory } from "../memory/MemorySubmissionQueue.ts"
import { makeSql } from "../sql/queue/SqlSubmissionQueue.ts"
import type { Claims, Outcomes, ProviderLimits } from "./Claims.ts"
import type { Holds } from "./Holds.ts"
import type { Maintenance, Rescues } from "./Maintenance.ts"
import type { StatusReads } from "./StatusReads.ts"

/** What worker, rescuer and reconciler ask of the ledger. Applications provide its layer, and call nothing of it. */
export class SubmissionQueue extends Context.Service<
  SubmissionQueue,
  Claims & Outcomes & StatusReads & Holds & Rescues & ProviderLimits & Maintenance
>()(
  "financial-agents-gateway/services/queue/SubmissionQueue"
) {
  static readonly layer: Layer.Layer<SubmissionQueue, never, SqlClient.SqlClient | Digest.Digest> = Layer.effect(
    SubmissionQueue,
    Effect.suspend(() => makeSql)
  )
  static readonly layerMemory: Layer.Layer<SubmissionQueue, never, MemoryLedger | Digest.Digest> = Layer.effect(
    SubmissionQueue,
    Effect.suspend(() => makeMemory)
  )
}
