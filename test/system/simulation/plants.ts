/**
 * Possible mistakes of the implementation. Each is planted by replacing or wrapping a part, and the judge must find it.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { OperationId } from "../../../src/domain/Operation.ts"
import type { Claim, ProviderOperation } from "../../../src/domain/Submission.ts"
import type { MemoryRecord } from "../../../src/services/memory/MemoryRecords.ts"
import { moveRecord } from "../../../src/services/memory/recordRules.ts"
import { sharePermits, stateAfter, toPermits, unusedLimit } from "../../../src/services/rules/providerPermits.ts"
import {
  FenceAnswer,
  namesNothing,
  NotSent,
  type ProviderAdapter,
  StatusAnswer,
  SubmissionAnswer
} from "../../../src/submission/providers/ProviderAdapter.ts"
import {
  asked,
  fenced,
  forgetful,
  forgottenAndUnfindable,
  forgottenClaims,
  lateRequestsByWrongClocks,
  limited
} from "./Circumstances.ts"
import { claimable, claimOf, databaseTime, failure, force, isDue, records } from "./Force.ts"
import type { Queue } from "./SimulatedDatabase.ts"
import type { Plant, Simulation } from "./Simulation.ts"
import { witnessPlants } from "./witnessPlants.ts"

type Adapter = ProviderAdapter["Service"]
type Submit = ReturnType<Adapter["submit"]>
type Read = ReturnType<Adapter["readStatus"]>

/** An adapter whose submissions end in another way. */
const submitting = (change: (sent: Submit, operation: ProviderOperation) => Submit) => ({
  adapter: (adapter: Adapter): Adapter => ({
    ...adapter,
    submit: (operation, payload) => change(adapter.submit(operation, payload), operation)
  })
})

/** An adapter whose status reads have another answer. */
const reading = (change: (answer: StatusAnswer) => StatusAnswer) => ({
  adapter: (adapter: Adapter): Adapter => ({
    ...adapter,
    readStatus: (operation, reference): Read => Effect.map(adapter.readStatus(operation, reference), change)
  })
})

/** Repeats the first answer for ever. */
const rememberAnswers = (): NonNullable<Plant["adapter"]> => {
  const known = new Map<OperationId, StatusAnswer>()
  return (adapter) => ({
    ...adapter,
    readStatus: (operation, reference) =>
      Effect.suspend(() => {
        const first = known.get(operation.id)
        return first !== undefined ? Effect.succeed(first) : Effect.tap(
          adapter.readStatus(operation, reference),
          (answer) => Effect.sync(() => known.set(operation.id, answer))
        )
      })
  })
}

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

/** Reserves permits in the memory of processes, by the clock of the caller, instead of in the database. */
const reserveInMemory = () => {
  let state = unusedLimit
  const reservePermits: Queue["reservePermits"] = (_provider, demand, terms) =>
    Effect.map(Clock.currentTimeMillis, (millis) => {
      const shares = sharePermits(state, demand, terms, millis * 1000, 0)
      state = stateAfter(state, shares, terms, millis * 1000)
      return toPermits(shares, terms)
    })
  return {
    reservePermits,
    forget: () => {
      state = unusedLimit
    }
  }
}

/** Each mistake by its name. Each is a function, because some have state. */
export const plants: Readonly<Record<string, () => Plant>> = {
  ...witnessPlants,
  "retry after rescue": () => ({
    queue: (queue, simulation) => ({
      ...queue,
      claim: (provider, limit, terms) =>
        Effect.map(queue.claim(provider, limit, terms), (claims) => [
          ...claims,
          ...records(simulation, (record) =>
            record.operation.state === "indeterminate" && record.owner.provider === provider).map((record) =>
              claimOf(simulation, record, terms)
            )
        ])
    })
  }),
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
  "a batch that applies partly": () => ({
    queue: (queue) => ({
      ...queue,
      recordAll: (records) =>
        Effect.as(queue.recordAll(records.slice(0, Math.ceil(records.length / 2))), records.map(() => true))
    })
  }),
  "cancel by age": () => ({
    layer: (simulation) =>
      Layer.effectDiscard(
        Effect.forkScoped(Effect.forever(Effect.andThen(
          Effect.sleep("1 second"),
          Effect.sync(() => {
            const old = databaseTime(simulation) - 5000
            const isOld = ({ operation }: MemoryRecord) =>
              operation.state === "indeterminate" && operation.updated_at.epochMilliseconds < old
            for (const record of records(simulation, isOld)) {
              force(simulation, record, { state: "cancelled" }, Duration.zero)
            }
          })
        )))
      )
  }),
  "not found means failed": () =>
    reading((answer) =>
      answer._tag === "NotFound"
        ? StatusAnswer.Proven({ state: "failed", ...failure, names: answer.names, evidence: { said: "not found" } })
        : answer
    ),
  "a status read that names another operation counts as evidence": () =>
    reading((answer) => "names" in answer ? { ...answer, names: namesNothing } : answer),
  "an answer to a submission that names another operation counts": () =>
    submitting((sent, { id }) =>
      Effect.map(
        sent,
        (answer) => ({ ...answer, names: { ...answer.names, operation_id: id } }) as SubmissionAnswer
      )
    ),
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
  "an answer to a person from before the last fence counts": () => ({
    queue: (queue, simulation) => ({
      ...queue,
      mayFence: (due) =>
        Effect.tap(queue.mayFence(due), () =>
          Effect.sync(() => {
            const { operations } = simulation.database
            const record = operations.get(due.operation.id)
            if (record !== undefined) {
              operations.set(due.operation.id, { ...record, fencing_until: record.fence_started_at })
            }
          }))
    }),
    circumstances: asked
  }),
  "the clock of a person is believed to the second": () => ({
    ledger: (ledger) => ({
      ...ledger,
      // The rule then finds the minute that it asks for.
      transition: (id, revision, to, evidence) =>
        Effect.flatMap(DateTime.now, (now) => {
          const { asked_at } = evidence as { readonly asked_at: string }
          const [later, latest] = [DateTime.makeUnsafe(asked_at), now].map(DateTime.add({ minutes: 1 }))
          return ledger.transition(id, revision, to, {
            ...evidence as object,
            asked_at: DateTime.formatIso(DateTime.min(later!, latest!))
          })
        })
    }),
    circumstances: asked
  }),
  "rescue to failed": () => ({ queue: rescueToFailed }),
  "double claim": () => ({
    remoteQueue: (queue, simulation) => ({
      ...queue,
      claim: Effect.fnUntraced(function*(provider, limit, terms) {
        const chosen = claimable(simulation, provider).slice(0, limit)
        yield* Effect.sleep(5)
        return chosen.map((record) => {
          const current = simulation.database.operations.get(record.operation.id) ?? record
          const claim = claimOf(simulation, record, terms)
          if (current.operation.state === "accepted") {
            const { send_before } = claim.operation
            force(simulation, current, { state: "submitting" }, terms.rescue_after, { send_before })
          }
          return claim
        })
      })
    })
  }),
  "lost wake-ups without polling": () => ({
    policy: { pollInterval: Duration.hours(1) },
    circumstances: (scenario) => ({ ...scenario, lostAnnouncements: 1 })
  }),
  "an uncertain submission counts as not sent": () =>
    submitting((sent) => Effect.mapError(sent, ({ reason }) => new NotSent({ reason }))),
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
  "returned claims that no worker takes over": () => ({
    queue: (queue) => ({ ...queue, claimReturned: () => Effect.succeed([]) }),
    circumstances: (scenario) => ({ ...scenario, network: { ...scenario.network, localFailure: 0.7 } })
  }),
  "an unreadable answer counts as a refusal": () =>
    submitting((sent) =>
      Effect.catchTag(
        sent,
        "Uncertain",
        () => Effect.succeed(SubmissionAnswer.Rejected({ ...failure, names: namesNothing, evidence: {} }))
      )
    ),
  "a hold that ends without evidence": () => ({
    queue: (queue) => ({ ...queue, takeHeld: () => Effect.as(queue.releaseAll, []) })
  }),
  "cancellation of a held operation": () => ({
    ledger: (ledger, simulation) => ({
      ...ledger,
      cancel: (id, evidence) =>
        Effect.suspend(() => {
          const record = simulation.database.operations.get(id)
          if (record?.operation.state !== "accepted") return ledger.cancel(id, evidence)
          force(simulation, record, { state: "cancelled" }, Duration.zero)
          return ledger.show(id)
        })
    }),
    circumstances: forgetful
  }),
  "an operator releases a held operation without a check": () => ({
    isReleaseCareless: true,
    circumstances: (scenario) => forgottenAndUnfindable(scenario, {})
  }),
  "an operator releases while another process can still send": () => ({
    isReleaseHasty: true,
    // The check before each retry would stop the other sender too, so this worker does not check.
    queue: (queue) => ({ ...queue, mayStillSend: () => Effect.succeed(true) }),
    circumstances: (scenario) => forgottenAndUnfindable(scenario, { slowConnection: 0.9, refused: 0.3 })
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
          return Effect.void
        })
    }),
    circumstances: forgetful
  }),
  "a restored snapshot whose operations are not held": () => ({ isHoldForgotten: true, circumstances: forgetful }),
  "the wait of a held operation ignores the last failover": () => ({
    queue: (queue, simulation) => ({
      ...queue,
      takeHeld: (provider, limit, terms) =>
        Effect.suspend(() => {
          const before = new Map(simulation.database.operations)
          return Effect.map(queue.takeHeld(provider, limit, terms), (reads) =>
            reads.map((read) => {
              const { operation } = read
              const { operations } = simulation.database
              const send_before = before.get(operation.id)?.send_before ?? operation.send_before
              operations.set(operation.id, { ...operations.get(operation.id)!, send_before })
              return { ...read, operation: { ...operation, send_before } }
            }))
        })
    }),
    circumstances: (scenario) => forgottenClaims(scenario, { lateRequest: 0.8 })
  }),
  "a late record replaces a newer claim": () => ({
    queue: (queue) => ({
      ...queue,
      record: (id, revision, outcome, recording) =>
        queue.record(id, revision, outcome, { ...recording, send_before: null })
    }),
    circumstances: (scenario) => forgottenClaims(scenario, { slowConnection: 0.9, refused: 0.3 })
  }),
  "a late record shortens a newer claim": () => ({
    queue: (queue, simulation) => ({
      ...queue,
      report: (id, reference) =>
        Effect.suspend(() => {
          const { operations } = simulation.database
          const record = operations.get(id)
          if (record?.operation.state !== "submitting") return queue.report(id, reference)
          operations.set(id, { ...record, due_at: databaseTime(simulation) })
          return Effect.void
        })
    }),
    circumstances: (scenario) => forgottenClaims(scenario, { slowConnection: 0.9, refused: 0.5 })
  }),
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
        })
    })
  }),
  "a hint taken for proof": () => ({
    queue: (queue, simulation) => ({
      ...queue,
      hint: (provider, about, interval) =>
        Effect.suspend(() => {
          const record = "operation_id" in about ? simulation.database.operations.get(about.operation_id) : undefined
          const { state } = record?.operation ?? {}
          if (record === undefined || state !== "submitted" && state !== "indeterminate") {
            return queue.hint(provider, about, interval)
          }
          force(simulation, record, { state: "succeeded" }, Duration.zero)
          return Effect.succeed("due" as const)
        })
    }),
    circumstances: (scenario) => ({ ...scenario, mishaps: { ...scenario.mishaps, hint: 300 } })
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
  "status reads from a cache": () => ({ adapter: rememberAnswers() }),
  "no rescuer": () => ({ queue: (queue) => ({ ...queue, rescue: () => Effect.succeed([]) }) }),
  "a wait without limit for hanging statements": () => ({ policy: { storeTimeout: Duration.hours(1) } }),
  "a consistency window without tolerance for clocks": () => ({
    circumstances: lateRequestsByWrongClocks,
    scenario: (scenario) => ({
      ...scenario,
      providers: scenario.providers.map((provider) => ({ ...provider, window: provider.consistency }))
    })
  }),
  "a limit that is forgotten at restart": () => {
    const { forget, reservePermits } = reserveInMemory()
    return {
      remoteQueue: (queue) => {
        forget()
        return { ...queue, reservePermits }
      },
      circumstances: limited
    }
  },
  "a limit that each process counts alone": () => ({
    remoteQueue: (queue) => ({ ...queue, reservePermits: reserveInMemory().reservePermits }),
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
