/** Possible mistakes about the witness, one for each premise of the argument in docs/cluster.md. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { WitnessStore } from "../../../src/cluster/witness/Witness.ts"
import type { ClaimBatch } from "../../../src/domain/Submission.ts"
import { witnessed } from "./Circumstances.ts"
import { databaseTime } from "./Force.ts"
import { noNetworkFaults } from "./ProviderTraits.ts"
import type { Scenario } from "./Scenario.ts"
import type { Queue } from "./SimulatedDatabase.ts"
import type { Plant, Simulation } from "./Simulation.ts"

/** A witness that takes batches of every epoch. */
const ignoreEpoch = (witness: WitnessStore): WitnessStore => {
  const batches = new Map<string, ClaimBatch>()
  return {
    ...witness,
    record: (batch) =>
      Effect.sync(() => {
        const { epoch, life, provider, worker } = batch
        batches.set(JSON.stringify([epoch, worker, life, provider]), batch)
        return true
      }),
    batches: () => Effect.sync(() => [...batches.values()]),
    compact: () => Effect.succeed(true)
  }
}

/** Gives claims the epoch that the witness has at the time, instead of the one that the claim read. */
const rereadEpoch = (witness: WitnessStore): WitnessStore => ({
  ...witness,
  record: (batch) =>
    Effect.flatMap(witness.epoch, (epoch) => witness.record(epoch === null ? batch : { ...batch, epoch }))
})

/** Batches that no failover loses, as if they were counted in a transaction elsewhere. */
const countApart = () => {
  const counts = new Map<string, number>()
  const keyOf = ({ life, provider, worker }: ClaimBatch) => JSON.stringify([worker, life, provider])
  return (queue: Queue, simulation: Simulation): Queue => {
    const claimed: Queue["claim"] = (provider, limit, terms) =>
      Effect.tap(queue.claim(provider, limit, terms), (claims) =>
        Effect.sync(() => {
          for (const { batch } of claims) if (batch !== undefined) counts.set(keyOf(batch), batch.batch)
        }))
    return {
      ...queue,
      claim: claimed,
      verify: (request) =>
        Effect.suspend(() => {
          const { batches } = simulation.database.memory
          for (const [key, batch] of counts) batches.set(key, Math.max(batches.get(key) ?? 0, batch))
          return queue.verify(request)
        })
    }
  }
}

const often = (scenario: Scenario) => witnessed(scenario)

export const witnessPlants: Readonly<Record<string, () => Plant>> = {
  "a claim that is sent before the witness has it": () => ({
    remoteWitness: (witness) => ({
      ...witness,
      record: (batch) => Effect.as(Effect.forkDetach(Effect.ignore(Effect.delay(witness.record(batch), 400))), true)
    }),
    circumstances: often
  }),
  "a witness that ignores the epoch": () => ({
    witness: ignoreEpoch,
    circumstances: often
  }),
  "a worker that takes the epoch from the witness": () => ({ remoteWitness: rereadEpoch, circumstances: often }),
  "an epoch that is valid in every life": () => ({
    queue: (queue, simulation) => ({
      ...queue,
      readWitnessState: Effect.map(queue.readWitnessState, (state) => ({ ...state, isCurrent: true })),
      claim: (provider, limit, terms) =>
        Effect.suspend(() => {
          const { cluster, home } = simulation.database.memory
          if (home.has("epoch")) home.set("life", cluster.life)
          return queue.claim(provider, limit, terms)
        })
    }),
    circumstances: often
  }),
  "a take-over that is not witnessed": () => ({
    queue: (queue) => ({
      ...queue,
      claimReturned: (provider, limit, terms) =>
        Effect.map(
          queue.claimReturned(provider, limit, terms),
          (claims) =>
            claims.map((claim) =>
              claim.batch === undefined ? claim : { ...claim, batch: { ...claim.batch, batch: -1 } }
            )
        )
    }),
    remoteWitness: (witness) => ({
      ...witness,
      record: (batch) => batch.batch < 0 ? Effect.succeed(true) : witness.record(batch)
    }),
    circumstances: (scenario) => {
      const { network, ...others } = witnessed(scenario)
      return { ...others, network: { ...network, localFailure: 0.5 } }
    }
  }),
  "batches that are forgotten without a checkpoint": () => ({
    witness: (witness) => ({
      ...witness,
      batches: (epoch) =>
        Effect.map(witness.batches(epoch), (batches) => batches?.filter(({ provider }) => provider !== "") ?? null)
    }),
    circumstances: often
  }),
  "a batch that is counted in another transaction": () => ({ queue: countApart(), circumstances: often }),
  "a release that compares nothing": () => ({
    queue: (queue) => ({
      ...queue,
      verify: (request) => queue.verify({ ...request, batches: request.batches.slice(0, 0) })
    }),
    circumstances: often
  }),
  "batches that are read before the fence": () => {
    let stale: ReadonlyArray<ClaimBatch> = []
    return {
      remoteWitness: (witness) => ({
        ...witness,
        epoch: Effect.andThen(
          Effect.flatMap(
            witness.epoch,
            (epoch) =>
              epoch === null ? Effect.void : Effect.map(witness.batches(epoch), (batches) => {
                stale = batches ?? stale
              })
          ),
          Effect.delay(witness.epoch, 200)
        ),
        batches: () => Effect.sync(() => stale)
      }),
      circumstances: often
    }
  },
  "a witness that forgets": () => ({
    witness: (witness) => ({
      ...witness,
      batches: (epoch) => Effect.map(witness.batches(epoch), (batches) => batches?.slice(0, -1) ?? null)
    }),
    circumstances: often
  }),
  "a claim under way that outlives the hold": () => ({
    queue: (queue, simulation) => ({
      ...queue,
      verify: (request) =>
        Effect.suspend(() => {
          const { operations } = simulation.database
          const before = new Map(operations)
          return Effect.tap(queue.verify(request), (verification) =>
            Effect.sync(() => {
              if (verification?.result !== "missing") return
              for (const [id, record] of before) {
                if (record.operation.state !== "submitting" || record.return_reason !== null) continue
                operations.copy(id, { ...record, due_at: databaseTime(simulation) + 300_000 })
              }
            }))
        })
    }),
    // So that the return often comes after the verification.
    remoteQueue: (queue) => ({ ...queue, returnClaim: (...args) => Effect.delay(queue.returnClaim(...args), 3000) }),
    policy: { storeTimeout: Duration.seconds(6), rescueAfter: Duration.seconds(15) },
    circumstances: (scenario) =>
      witnessed(scenario, {
        forgets: false,
        forgottenClaims: 0,
        leftBehind: 1,
        backAgain: 1,
        processes: 2,
        network: noNetworkFaults
      })
  })
}
