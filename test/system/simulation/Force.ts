/** Statements that bypass the rules of the ledger, for planted mistakes. */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { isTerminal, type Outcome } from "../../../src/domain/Operation.ts"
import type { Claim, ClaimTerms } from "../../../src/domain/Submission.ts"
import type { MemoryRecord } from "../../../src/services/memory/MemoryRecords.ts"
import { isFree } from "../../../src/services/memory/recordRules.ts"
import type { Simulation } from "./Simulation.ts"

export const failure = { code: "planted", message: "Planted." }

export const databaseTime = ({ database }: Simulation) => database.clock.currentTimeMillisUnsafe()

export const records = (
  { database }: Simulation,
  belongs: (record: MemoryRecord) => boolean
): ReadonlyArray<MemoryRecord> => [...database.operations.values()].filter(belongs)

export const isDue = (simulation: Simulation) => ({ due_at }: MemoryRecord) =>
  (due_at ?? Infinity) <= databaseTime(simulation)

/** Writes a change that the rules of the ledger may refuse. */
export const force = (
  simulation: Simulation,
  record: MemoryRecord,
  { state }: Outcome,
  due_in: Duration.Duration,
  changes: Partial<MemoryRecord> = {}
): void => {
  const { operation } = record
  const at = DateTime.makeUnsafe(databaseTime(simulation))
  const revision = operation.revision + 1
  const terminal = isTerminal(state)
  simulation.database.operations.set(operation.id, {
    ...record,
    ...changes,
    operation: { ...operation, state, terminal, revision, failure: state === "failed" ? failure : null },
    due_at: terminal ? null : databaseTime(simulation) + Duration.toMillis(due_in),
    hold_placed: false,
    examined_timeline: null,
    history: [...record.history, { revision, from: operation.state, to: state, at, evidence: { by: "plant" } }]
  })
}

/** A claim of an operation, as a correct claim would return it. */
export const claimOf = (simulation: Simulation, { operation, owner }: MemoryRecord, terms: ClaimTerms): Claim => ({
  operation: {
    id: operation.id,
    type: operation.type,
    resource_owner: owner.resource_owner,
    provider_connection_id: owner.provider_connection_id,
    send_before: DateTime.makeUnsafe(databaseTime(simulation) + Duration.toMillis(terms.send_within))
  },
  revision: operation.revision + 1,
  claimed_at: DateTime.makeUnsafe(databaseTime(simulation)),
  payload: Effect.succeed({})
})

export const claimable = (simulation: Simulation, provider: string) =>
  records(
    simulation,
    (record) =>
      record.owner.provider === provider && isDue(simulation)(record)
      && isFree(record, simulation.database.memory.cluster.timeline)
  )
