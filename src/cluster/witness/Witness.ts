/**
 * An independent store that knows the last claim batch which each worker may have sent. So a failover is released without a person if
 * it lost no sent claim: see docs/cluster.md.
 *
 * The room `cluster/witness`: a record of the claims outside the ledger, for releases after a failover. Read this file first.
 *
 * Every method is one linearizable step: it sees all steps that ended before it began.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { ClaimBatch } from "../../domain/Submission.ts"

/** The witness did not answer as it should. After a write it is unknown whether it took effect. The reason holds no secret. */
export class WitnessUnavailable extends Data.TaggedError("WitnessUnavailable")<{ readonly reason: string }> {
  override get message() {
    return this.reason
  }
}

export interface WitnessStore {
  /** The present epoch; null if there is none yet. */
  readonly epoch: Effect.Effect<string | null, WitnessUnavailable>
  /**
   * Records a batch, if its epoch is the present one and the witness has no batch of the same epoch, worker, life and provider that is
   * as high or higher. Otherwise false. A repeated call after a lost answer is refused as well.
   */
  readonly record: (batch: ClaimBatch) => Effect.Effect<boolean, WitnessUnavailable>
  /** Sets the epoch, if the present one is `from`. After that, the witness takes no batch of an earlier epoch. */
  readonly fence: (from: string | null, to: string) => Effect.Effect<boolean, WitnessUnavailable>
  /**
   * The last batch of each epoch, worker, life and provider. Null if this epoch is not the present one: then another verifier was
   * faster, or the server is one that was replaced.
   */
  readonly batches: (epoch: string) => Effect.Effect<ReadonlyArray<ClaimBatch> | null, WitnessUnavailable>
  /**
   * Removes all batches of other epochs, and records this one, which proves them. Does nothing if its epoch is not the present one.
   * Returns whether it did.
   */
  readonly compact: (checkpoint: ClaimBatch) => Effect.Effect<boolean, WitnessUnavailable>
}

/** How workers use their witness. */
export const WitnessPolicy = Context.Reference("financial-agents-gateway/cluster/witness/WitnessPolicy", {
  defaultValue: () => ({
    /** Longest wait for one answer. Without one, nothing is sent. */
    timeout: Duration.seconds(2),
    /** Between two looks at ledger and witness. */
    interval: Duration.seconds(1),
    /**
     * How long the witness must have had an epoch that the ledger lacks before another process begins anew. Up to twice as long. A
     * verification under way ends within that time; one that takes longer is repeated.
     */
    patience: Duration.seconds(5),
    /** Age of an epoch at which the batches of earlier ones are forgotten. */
    compactAfter: Duration.minutes(10),
    /** Batches in the witness that end an epoch. */
    mostBatches: 1000
  })
})

/** Bounds a step of the witness in time. After `WitnessUnavailable` it is unknown whether a write took effect. */
export const withinWitness = <A>(step: Effect.Effect<A, WitnessUnavailable>): Effect.Effect<A, WitnessUnavailable> =>
  Effect.flatMap(WitnessPolicy, ({ timeout }) =>
    Effect.timeoutOrElse(Effect.interruptible(step), {
      duration: timeout,
      orElse: () => Effect.fail(new WitnessUnavailable({ reason: "no answer in time" }))
    }))
