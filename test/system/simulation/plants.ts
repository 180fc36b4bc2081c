/**
 * Possible mistakes of the implementation. Each is planted by replacing or wrapping a part, and the judge must find it.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { Claim, ProviderOperation } from "../../../src/domain/Submission.ts"
import { moveRecord } from "../../../src/services/memory/recordRules.ts"
import { sharePermits, stateAfter, toPermits, unusedLimit } from "../../../src/services/rules/providerPermits.ts"
import {
  FenceAnswer,
  namesNothing,
  NotSent,
  type ProviderAdapter
} from "../../../src/submission/providers/ProviderAdapter.ts"
import { fenced, forgetful, limited } from "./Circumstances.ts"
import { claimable, claimOf, databaseTime, failure, force, isDue, records } from "./Force.ts"
import type { Queue } from "./SimulatedDatabase.ts"
import type { Plant, Simulation } from "./Simulation.ts"
import { witnessPlants } from "./witnessPlants.ts"

type Adapter = ProviderAdapter["Service"]
type Submit = ReturnType<Adapter["submit"]>

/** An adapter whose submissions end in another way. */
const submitting = (change: (sent: Submit, operation: ProviderOperation) => Submit) => ({
  adapter: (adapter: Adapter): Adapter => ({
    ...adapter,
    submit: (operation, payload) => change(adapter.submit(operation, payload), operation)
  })
})

const rescueToFailed = (queue: Queue, simulation: Simulation): Queue => ({
  ...queue,
  rescue: () =>
    Effect.sync(() =>
      records(simulation, (record) => record.operation.state === "submitting" && isDue(simulation)(record)).map(
        (record) => {
          const now = DateTime.makeUnsafe(databaseTime(simulation))
          const moved = moveRecord(record, { state: "failed", failure }, { by: "rescuer" }, now, null)
          simulation.database.operations.set(record.operation.id, moved)
          return record.operation.id
        }
      )
    )
})

/** Reserves permits in the memory of a process, by its clock, instead of in the database. */
const reserveInMemory = (): Queue["reservePermits"] => {
  let state = unusedLimit
  return (_provider, demand, terms) =>
    Effect.map(Clock.currentTimeMillis, (millis) => {
      const shares = sharePermits(state, demand, terms, millis * 1000, 0)
      state = stateAfter(state, shares, terms, millis * 1000)
      return toPermits(shares, terms)
    })
}

/** Each mistake by its name. Each is a function, because some have state. */
export const plants: Readonly<Record<string, () => Plant>> = {
  ...witnessPlants,
  "send before commit": () => ({
    remoteQueue: (queue, simulation) => ({
      ...queue,
      claim: (provider, limit, terms) =>
        Effect.suspend(() => {
          const claims = claimable(simulation, provider).slice(0, limit).map((record) =>
            claimOf(simulation, record, terms)
          )
          return Effect.as(Effect.forkDetach(Effect.ignore(queue.claim(provider, limit, terms))), claims)
        })
    })
  }),
  "a retry that does not check for revoked consent": () => ({
    remoteQueue: (queue) => ({ ...queue, mayStillSend: () => Effect.succeed(true) }),
    circumstances: (scenario) => ({
      ...scenario,
      network: { ...scenario.network, refused: 0.7 },
      mishaps: { ...scenario.mishaps, standingChange: 500 }
    })
  }),
  "no compare-and-set": () => ({
    queue: (queue, simulation) => ({
      ...queue,
      record: (id, revision, outcome, recording) =>
        Effect.suspend(() => {
          const record = simulation.database.operations.get(id)
          if (record === undefined) return queue.record(id, revision, outcome, recording)
          force(simulation, record, outcome, recording.due_in)
          return Effect.succeed(simulation.database.operations.get(id)!.operation)
        })
    })
  }),
  "a lost batch": () => ({
    queue: (queue) => ({ ...queue, recordAll: (records) => Effect.succeed(records.map(() => true)) })
  }),
  "a fence whose order is not cancelled counts as proof": () => ({
    adapter: (adapter) =>
      adapter.fence === undefined ? adapter : {
        ...adapter,
        fence: (operation, payload) =>
          Effect.map(adapter.fence!(operation, payload), (sent) =>
            sent && Effect.timeoutOrElse(sent, {
              duration: "500 millis",
              orElse: () => Effect.succeed(FenceAnswer.Occupied({ names: namesNothing, evidence: { said: "pending" } }))
            }))
      },
    circumstances: fenced
  }),
  "rescue to failed": () => ({ queue: rescueToFailed }),
  "a claim is returned after an attempt that may have sent": () =>
    submitting((sent) =>
      Effect.mapError(
        sent,
        (error) => error._tag === "Uncertain" ? new NotSent({ reason: error.reason, isLocal: true }) : error
      )
    ),
  "a local failure counts as an unreachable provider": () => ({
    ...submitting((sent) =>
      Effect.mapError(sent, (error) => error._tag === "NotSent" ? new NotSent({ reason: error.reason }) : error)
    ),
    circumstances: (scenario) => ({ ...scenario, network: { ...scenario.network, localFailure: 0.9 } })
  }),
  "a late status read delays a released operation": () => ({
    queue: (queue, simulation) => ({
      ...queue,
      postpone: (id, revision, next) =>
        Effect.suspend(() => {
          const { operations } = simulation.database
          const record = operations.get(id)
          if (record?.operation.state !== "accepted") return queue.postpone(id, revision, next)
          // The longest delay.
          operations.set(id, { ...record, due_at: databaseTime(simulation) + 3_600_000 })
          return Effect.succeed(true)
        })
    }),
    circumstances: forgetful
  }),
  "a restored snapshot whose operations are not held": () => ({ isHoldForgotten: true, circumstances: forgetful }),
  "no review of operations that no worker can act on": () => ({
    queue: (queue) => ({ ...queue, reviewAged: () => Effect.succeed(0) })
  }),
  "rescheduling without a time": () => ({
    queue: (queue, simulation) => ({
      ...queue,
      postpone: (id, revision) =>
        Effect.sync(() => {
          const record = simulation.database.operations.get(id)
          if (record?.operation.revision === revision) {
            simulation.database.operations.set(id, { ...record, due_at: null })
          }
          return true
        })
    })
  }),
  "a hint that ends the wait of the rescuer": () => ({
    queue: (queue, simulation) => ({
      ...queue,
      hint: (provider, about, interval) =>
        Effect.suspend(() => {
          const { operations } = simulation.database
          const record = "operation_id" in about ? operations.get(about.operation_id) : undefined
          if (record?.operation.state !== "submitting") return queue.hint(provider, about, interval)
          operations.set(record.operation.id, { ...record, due_at: databaseTime(simulation) })
          return Effect.succeed("due" as const)
        })
    }),
    circumstances: (scenario) => ({
      ...scenario,
      limitedGrants: 0,
      network: { ...scenario.network, refused: 0.5 },
      mishaps: { ...scenario.mishaps, hint: 300 }
    })
  }),
  "no rescuer": () => ({ queue: (queue) => ({ ...queue, rescue: () => Effect.succeed([]) }) }),
  "a limit that each process counts alone": () => ({
    remoteQueue: (queue) => ({ ...queue, reservePermits: reserveInMemory() }),
    circumstances: limited
  }),
  "a claim that is compared with the worker's own clock": () => {
    const asIfClaimedNow = (claims: ReadonlyArray<Claim>) =>
      Effect.map(DateTime.now, (claimed_at) => claims.map((claim) => ({ ...claim, claimed_at })))
    return {
      remoteQueue: (queue) => ({
        ...queue,
        claim: (...args) => Effect.flatMap(queue.claim(...args), asIfClaimedNow),
        claimReturned: (...args) => Effect.flatMap(queue.claimReturned(...args), asIfClaimedNow)
      }),
      circumstances: (scenario) => ({ ...scenario, skew: 60_000 })
    }
  },
  "a send deadline by a clock that can be set": () => ({
    circumstances: (scenario) => ({
      ...scenario,
      skew: 10_000,
      network: { ...scenario.network, refused: 0.5 },
      mishaps: { ...scenario.mishaps, clockStep: 300 },
      providers: scenario.providers.map((provider) => ({ ...provider, window: null }))
    }),
    clock: (clock): Clock.Clock => ({
      currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe(),
      currentTimeMillis: clock.currentTimeMillis,
      currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe(),
      currentTimeNanos: clock.currentTimeNanos,
      monotonicTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe(),
      monotonicTimeNanos: clock.currentTimeNanos,
      sleep: (duration) => clock.sleep(duration)
    })
  })
}
