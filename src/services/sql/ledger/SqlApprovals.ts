/**
 * Approvals in PostgreSQL. The triggers of `migrations/0035_approvals.sql` check each decision again, and
 * carry it out.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import {
  type Approval,
  type ApprovalStatus,
  type Decision,
  limitOf,
  type PendingApprovals,
  type PendingOwners
} from "../../../domain/Approval.ts"
import type { ClientId, ProviderName, ResourceOwner } from "../../../domain/Grant.ts"
import type { OperationId } from "../../../domain/Operation.ts"
import { findDecisionRefusal } from "../../rules/approvals.ts"
import { makeOpenTerms } from "../../rules/openPayload.ts"
import { orUnavailable } from "../../StoreUnavailable.ts"
import { AcceptanceSignal } from "../../WorkSignals.ts"
import { makeRecord, storable, withRecord } from "../actionRecords.ts"
import {
  type Instant,
  instantOf,
  instantOrNull,
  type OperationRow,
  publicColumns,
  sealedTermsOf
} from "../OperationRow.ts"
import { isUnsent } from "../queueFragments.ts"

/** The columns of `approvalStatusColumns`. */
export interface ApprovalStatusRow {
  readonly approval_state: ApprovalStatus["state"]
  readonly asked_at: Instant
  readonly expires_at: Instant
  readonly decided_at: Instant | null
  readonly decided_as: ApprovalStatus["decided_as"]
  readonly decider: string | null
  readonly reason: string | null
}

/** The columns of `approvalColumns`. `state` is that of the operation. */
interface ApprovalRow extends OperationRow, ApprovalStatusRow {
  readonly client_id: ClientId
  readonly resource_owner: ResourceOwner
  readonly provider: ProviderName
  readonly terms: Uint8Array | null
  readonly terms_key_id: string | null
  readonly request_digest: string
}

interface FactsRow extends ApprovalRow {
  readonly now: Instant
  readonly is_unsent: boolean
  /** The terms are those for which the approval was asked. */
  readonly is_asked: boolean
}

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const signal = yield* AcceptanceSignal
  const openTerms = yield* makeOpenTerms
  const record = makeRecord(sql)

  const approvalOf = (row: ApprovalRow): Effect.Effect<Approval> =>
    Effect.map(openTerms(...sealedTermsOf(row)), (terms) => ({ ...membersOf(row), terms }))

  const pending = Effect.fn("Approvals.pending")((which: PendingApprovals = {}) =>
    Effect.flatMap(
      orUnavailable(sql.unsafe<ApprovalRow>(pendingStatement(which), [
        limitOf(which),
        ...which.resource_owner === undefined ? [] : [which.resource_owner],
        ...which.after === undefined ? [] : [DateTime.toDateUtc(which.after.expires_at), which.after.operation_id]
      ])),
      (rows) => Effect.forEach(rows, approvalOf)
    )
  )

  const owners = Effect.fn("Approvals.owners")((which: PendingOwners = {}) =>
    Effect.map(
      orUnavailable(
        sql.unsafe<{ readonly resource_owner: ResourceOwner }>(ownersStatement, [limitOf(which), which.after ?? ""])
      ),
      (rows) => rows.map(({ resource_owner }) => resource_owner)
    )
  )

  const find = Effect.fn("Approvals.find")((id: OperationId) =>
    Effect.flatMap(
      orUnavailable(sql.unsafe<ApprovalRow>(findStatement, [id])),
      ([row]) => row === undefined ? Effect.succeed(null) : approvalOf(row)
    )
  )

  /** Locks the operation first, as each change of it does. A statement that waited for the lock sees only facts from before. */
  const decideOne = Effect.fnUntraced(function*(decision: Decision) {
    const { decider, operation_id, reason, request_digest } = decision
    yield* orUnavailable(sql.unsafe(lockStatement, [operation_id]))
    const [row] = yield* orUnavailable(sql.unsafe<FactsRow>(factsStatement, [operation_id]))
    const facts = row && {
      ...membersOf(row),
      ...row.is_asked ? {} : { request_digest: "" },
      now: instantOf(row.now),
      is_unsent: row.is_unsent
    }
    const refused = findDecisionRefusal(decision, facts)
    if (refused !== null) return yield* refused
    yield* orUnavailable(sql.unsafe(decideStatement, [
      operation_id,
      decision.decision,
      request_digest,
      decider.as,
      storable(decider.name),
      reason ? storable(reason) : null
    ]))
    return row!.provider
  })

  const recordOf = ({ decider, decision, operation_id, reason }: Decision, result: string) =>
    record(
      { name: decider.name, via: decider.as === "owner" ? "owner" : decider.via, reason },
      { action: decision === "approved" ? "approve" : "deny", operation_id, result }
    )

  const recordRefused = (decision: Decision, why: string) => Effect.asVoid(recordOf(decision, storable(why)))

  const decide = Effect.fn("Approvals.decide")((decision: Decision) =>
    withRecord(sql, decideOne(decision), (result) => recordOf(decision, result)).pipe(
      Effect.tap((provider) => decision.decision === "approved" ? signal.announce(provider) : Effect.void),
      Effect.andThen(find(decision.operation_id)),
      Effect.map((approval) => approval!)
    )
  )

  return { pending, owners, find, decide, recordRefused }
})

const membersOf = (row: ApprovalRow): Omit<Approval, "terms"> => ({
  operation_id: row.id as OperationId,
  type: row.type,
  client_id: row.client_id,
  resource_owner: row.resource_owner,
  request_digest: row.request_digest,
  ...toApprovalStatus(row)
})

export const toApprovalStatus = (row: ApprovalStatusRow): ApprovalStatus => ({
  state: row.approval_state,
  created_at: instantOf(row.asked_at),
  expires_at: instantOf(row.expires_at),
  decided_at: instantOrNull(row.decided_at),
  decided_as: row.decided_as,
  decider: row.decider,
  reason: row.reason
})

/** The columns of `ApprovalStatusRow`, of the row `a` of `approvals`. */
export const approvalStatusColumns =
  "a.state AS approval_state, a.created_at AS asked_at, a.expires_at, a.decided_at, a.decided_as, a.decider, a.reason"

const approvalColumns = `${publicColumns}, o.client_id, o.resource_owner, o.provider, o.terms, o.terms_key_id,
    encode(CASE a.state WHEN 'pending' THEN approval_digest(o) ELSE a.request_digest END, 'hex') AS request_digest,
    ${approvalStatusColumns}`

const approvals = "approvals a JOIN operations o ON o.id = a.operation_id AND o.client_id = a.client_id"

/** `$1` limit, then the owner, then the place of the last approval before. Each is one range of one index. */
const pendingStatement = ({ after, resource_owner }: PendingApprovals) => {
  const [time, id] = resource_owner === undefined ? ["$2", "$3"] : ["$3", "$4"]
  return `
  SELECT ${approvalColumns} FROM ${approvals}
  WHERE a.state = 'pending'${resource_owner === undefined ? "" : " AND a.resource_owner = $2"}${
    after === undefined ? "" : ` AND (a.expires_at, a.operation_id) > (${time}::timestamptz, ${id}::uuid)`
  }
  ORDER BY a.expires_at, a.operation_id LIMIT $1`
}

const ownerAfter = (after: string) => `
    SELECT a.resource_owner FROM approvals a
    WHERE a.state = 'pending' AND a.resource_owner > ${after} ORDER BY a.resource_owner LIMIT 1`

/** Skips from one owner to the next in the index, as a claim skips from client to client. `$1` limit, `$2` the last owner before. */
const ownersStatement = `
  WITH RECURSIVE owners AS (
    SELECT 1 AS n, first.resource_owner FROM (${ownerAfter("$2::text")}) first
    UNION ALL
    SELECT o.n + 1, next.resource_owner FROM owners o CROSS JOIN LATERAL (${ownerAfter("o.resource_owner")}) next
    WHERE o.n < $1::integer
  )
  SELECT resource_owner FROM owners ORDER BY n`

const findStatement = `SELECT ${approvalColumns} FROM ${approvals} WHERE a.operation_id = $1`

const lockStatement = "SELECT FROM operations WHERE id = $1 FOR NO KEY UPDATE"

const factsStatement = `
  SELECT ${approvalColumns}, now(), ${isUnsent} AS is_unsent,
    a.state <> 'pending' OR approval_digest(o) = a.request_digest AS is_asked
  FROM ${approvals} WHERE a.operation_id = $1`

/** `$1` operation, `$2` decision, `$3` digest, `$4` and `$5` who decides, and in which capacity, `$6` the reason. */
const decideStatement = `
  UPDATE approvals
  SET state = $2, decided_digest = decode($3, 'hex'), decided_as = $4, decider = $5, reason = $6
  WHERE operation_id = $1 RETURNING 1`
