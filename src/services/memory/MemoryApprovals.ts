/** Approvals in memory. Decisions are recorded in the approval alone: the record of actions needs PostgreSQL. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import {
  type Approval,
  type Decision,
  limitOf,
  type PendingApprovals,
  type PendingOwners
} from "../../domain/Approval.ts"
import type { ResourceOwner } from "../../domain/Grant.ts"
import type { OperationId } from "../../domain/Operation.ts"
import { approvalEvidence, findDecisionRefusal } from "../rules/approvals.ts"
import { makeOpenTerms } from "../rules/openPayload.ts"
import { AcceptanceSignal } from "../WorkSignals.ts"
import { MemoryLedger } from "./MemoryLedger.ts"
import type { MemoryRecord } from "./MemoryRecords.ts"
import { isUnsent, moveRecord } from "./recordRules.ts"

export const makeMemory = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const openTerms = yield* makeOpenTerms
  const signal = yield* AcceptanceSignal

  const approvalsOf = (records: ReadonlyArray<MemoryRecord>) =>
    Effect.forEach(
      records,
      (record) =>
        Effect.map(openTerms(record.operation, record.terms), (terms): Approval => ({ ...membersOf(record), terms }))
    )

  const waiting = () => [...memory.operations.values()].filter(({ approval }) => approval?.state === "pending")

  const pending = Effect.fn("Approvals.pending")(({ after, resource_owner, ...which }: PendingApprovals = {}) =>
    Effect.suspend(() =>
      approvalsOf(
        waiting().filter((record) =>
          (resource_owner === undefined || record.owner.resource_owner === resource_owner)
          && (after === undefined || inOrder(membersOf(record), after) > 0)
        ).toSorted((a, b) => inOrder(membersOf(a), membersOf(b))).slice(0, limitOf(which))
      )
    )
  )

  const owners = Effect.fn("Approvals.owners")(({ after = "" as ResourceOwner, ...which }: PendingOwners = {}) =>
    Effect.sync(() =>
      [...new Set(waiting().map(({ owner }) => owner.resource_owner))].filter((owner) => owner > after).toSorted()
        .slice(0, limitOf(which))
    )
  )

  const find = Effect.fn("Approvals.find")((id: OperationId) =>
    Effect.suspend(() => {
      const record = memory.operations.get(id)
      return Effect.map(
        approvalsOf(record === undefined || record.approval === null ? [] : [record]),
        ([approval = null]) => approval
      )
    })
  )

  const decided = (record: MemoryRecord, { decider, decision, reason }: Decision, at: DateTime.Utc): MemoryRecord => {
    const approval = {
      ...record.approval!,
      state: decision,
      decided_at: at,
      decided_as: decider.as,
      decider: decider.name,
      reason: reason || null
    }
    if (decision === "denied") {
      return moveRecord({ ...record, approval }, { state: "cancelled" }, approvalEvidence(approval), at, null)
    }
    return {
      ...record,
      approval,
      operation: { ...record.operation, under_review: false },
      hold_placed: record.hold_outlasts_approval,
      unsent_in: record.hold_outlasts_approval ? record.unsent_in : null,
      due_at: at.epochMilliseconds,
      waiting: false,
      reviewed_at: at
    }
  }

  const decide = Effect.fn("Approvals.decide")(function*(decision: Decision) {
    const now = yield* DateTime.now
    yield* Effect.suspend(() => {
      const found = memory.operations.get(decision.operation_id)
      const facts = found && found.approval !== null
        ? { ...membersOf(found), now, is_unsent: isUnsent(found, memory) }
        : undefined
      const refused = findDecisionRefusal(decision, facts)
      if (refused !== null) return Effect.fail(refused)
      memory.operations.set(decision.operation_id, decided(found!, decision, now))
      return decision.decision === "approved" ? signal.announce(found!.owner.provider) : Effect.void
    })
    return (yield* find(decision.operation_id))!
  })

  return { pending, owners, find, decide, recordRefused: () => Effect.void }
})

type InOrder = Pick<Approval, "expires_at" | "operation_id">

const inOrder = (a: InOrder, b: InOrder) =>
  a.expires_at.epochMilliseconds - b.expires_at.epochMilliseconds ||
  Number(a.operation_id > b.operation_id) - Number(a.operation_id < b.operation_id)

const membersOf = ({ approval, operation, owner }: MemoryRecord): Omit<Approval, "terms"> => ({
  operation_id: operation.id,
  type: operation.type,
  client_id: owner.client_id,
  resource_owner: owner.resource_owner,
  created_at: operation.created_at,
  ...approval!
})
