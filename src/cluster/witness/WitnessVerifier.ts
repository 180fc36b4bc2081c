/**
 * Compares the ledger with its witness whenever the ledger begins a new life, such as after a failover or a restart of the server, and
 * whenever the witness has another epoch. Then operations that only the timeline held are released, if no sent claim was lost.
 *
 * The order guarantees that. The verifier reads epoch and life of the ledger. Then it fences the witness, so that no worker which
 * claimed before can send any more. Then it reads all batches. Then the ledger compares and acts in one transaction, if it still
 * has that epoch and life. A verifier may stop after each step: the next one begins anew.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import type { ClaimBatch } from "../../domain/Submission.ts"
import { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { type ClockReading, elapsed, readClocks } from "../../submission/elapsed.ts"
import { repeatStatement } from "../../submission/storeStatements.ts"
import { checkpointOf, type Verification, type Verifications, type WitnessState } from "./Verifications.ts"
import { withinWitness, WitnessPolicy, type WitnessStore } from "./Witness.ts"

/** An epoch of the witness that the ledger lacks, and how long it must last before this process begins anew. */
interface UnknownEpoch {
  readonly epoch: string
  readonly since: ClockReading
  /** Milliseconds. */
  readonly patience: number
}

/** Lets a ledger that has lost claims wait longer: it may be that of a server that was replaced. */
const afterHold = 6

const reports: Readonly<Record<Verification["result"], Effect.Effect<void>>> = {
  begun: Effect.logInfo(
    "The ledger has its witness from now on. Earlier holds stay until status reads settle the operations or a person releases them"
  ),
  proven: Effect.logInfo("The witness proves that no sent claim was lost"),
  unsettled: Effect.logWarning(
    "No witnessed claim was lost, but the ledger had its witness for too short a time: holds stay"
  ),
  missing: Effect.logError(
    "Sent claims were lost: all accepted operations are held. First stop the server that was replaced and its workers, because "
      + "the witness does not. Then ask the providers, and release; see operations held"
  ),
  unprovable: Effect.logError(
    "Ledger and witness have no epoch in common, so nothing proves what was sent: all accepted operations are held. Ask "
      + "the providers, then release; see operations held"
  )
}

const makeVerifier = Effect.fnUntraced(function*(
  store: WitnessStore,
  { forgetBatches, readWitnessState, releaseProven, verify }: Verifications
) {
  const { compactAfter, mostBatches, patience } = yield* WitnessPolicy
  let unknownEpoch: UnknownEpoch | null = null
  let tidiedAt: ClockReading | null = null
  let hasHeld = false

  /**
   * Another process may be verifying, or a server that was replaced still runs with its workers. Two that fence at once would only
   * end each other's epochs.
   */
  const mustWait = Effect.fnUntraced(function*(present: string | null, { epoch }: WitnessState) {
    if (present === null || present === epoch) return false
    if (unknownEpoch?.epoch !== present) {
      const share = yield* Random.nextBetween(1, 2)
      const factor = hasHeld ? afterHold : 1
      unknownEpoch = {
        epoch: present,
        since: yield* readClocks,
        patience: Duration.toMillis(patience) * share * factor
      }
    }
    return (yield* elapsed(unknownEpoch.since)) < unknownEpoch.patience
  })

  /** Whether the witness has the checkpoint, and its epoch is still the present one. */
  const recordCheckpoint = Effect.fnUntraced(function*(checkpoint: ClaimBatch) {
    if (yield* withinWitness(store.record(checkpoint))) return true
    // An earlier call recorded it, and its answer was lost.
    const batches = yield* withinWitness(store.batches(checkpoint.epoch))
    return batches !== null && batches.some(({ worker }) => worker === checkpoint.worker)
  })

  /**
   * The witness must have the checkpoint first. Until then the server that was replaced could verify, send an operation, and leave this
   * ledger to cancel it.
   */
  const release = Effect.fnUntraced(function*(epoch: string, life: string) {
    if (!(yield* recordCheckpoint(checkpointOf(epoch, life)))) return
    const released = yield* releaseProven(epoch, life)
    if (released === null) return
    yield* Effect.annotateLogs(Effect.logInfo("Released the operations that only the timeline held"), { released })
  })

  const begin = Effect.fnUntraced(function*(state: WitnessState, present: string | null) {
    const epoch = crypto.randomUUID()
    if (!(yield* withinWitness(store.fence(present, epoch)))) return
    const batches = yield* withinWitness(store.batches(epoch))
    if (batches === null) return
    const verification = yield* verify({ expected: state, epoch, batches, hadEpoch: present !== null })
    if (verification === null) return
    const { held, missing, result } = verification
    yield* held + missing.length === 0 ? reports[result] : Effect.annotateLogs(reports[result], { held, missing })
    hasHeld = result === "missing" || result === "unprovable"
    // A history that lacks this verification cannot be proven any more. One that lost claims tells no other history of that.
    if (result !== "missing" && result !== "proven") yield* recordCheckpoint(checkpointOf(epoch, state.life))
    if (result === "proven") yield* release(epoch, state.life)
  })

  /** Forgets the batches of earlier epochs. */
  const tidy = Effect.fnUntraced(function*(epoch: string, state: WitnessState) {
    const isDue = state.age >= Duration.toMillis(compactAfter)
      && (tidiedAt === null || (yield* elapsed(tidiedAt)) >= Duration.toMillis(compactAfter))
    if (!isDue) return
    const batches = yield* withinWitness(store.batches(epoch))
    if (batches === null) return
    if (batches.some((batch) => batch.epoch !== epoch)) {
      if (yield* withinWitness(store.compact(checkpointOf(epoch, state.life)))) yield* forgetBatches(epoch)
    }
    tidiedAt = yield* readClocks
    if (batches.filter((batch) => batch.epoch === epoch).length > mostBatches) yield* begin(state, epoch)
  })

  return Effect.gen(function*() {
    const state = yield* readWitnessState
    const present = yield* withinWitness(store.epoch)
    if (state.epoch !== null && state.isCurrent && state.epoch === present) {
      if (state.isReleaseDue) yield* release(present, state.life)
      return yield* tidy(present, state)
    }
    if (yield* mustWait(present, state)) return
    yield* begin(state, present)
  })
})

/** Verifies until its scope closes, the first time at once. */
export const verifyWitness = Effect.fnUntraced(function*(
  store: WitnessStore,
  verifications: Verifications
): Effect.fn.Return<void, never, Scope.Scope> {
  const { interval } = yield* WitnessPolicy
  const verification = yield* makeVerifier(store, verifications)
  yield* repeatStatement({
    statement: Effect.catchTag(
      verification,
      "WitnessUnavailable",
      ({ reason }) => Effect.fail(new StoreUnavailable({ cause: new Error(`the witness: ${reason}`) }))
    ),
    failure: "Could not compare the ledger with its witness; the next look tries again",
    interval,
    limit: "prepareTimeout"
  })
})
