/**
 * The ledger in PostgreSQL.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import type * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import {
  type GrantIdentity,
  type GrantStanding,
  GrantUnknown,
  type Provider,
  refusal,
  type Scope
} from "../../domain/Grant.ts"
import { BindingConflict, type FinancialRequest } from "../../domain/Idempotency.ts"
import {
  AlreadySettled,
  type HistoryEntry,
  type OperationId,
  OperationNotFound,
  type OperationState,
  type Outcome,
  StaleOperation
} from "../../domain/Operation.ts"
import { AcceptanceSignal } from "../AcceptanceSignal.ts"
import {
  cancellationResult,
  findTransitionError,
  heldError,
  type Platform,
  prepareAcceptance
} from "../internal/ledgerRules.ts"
import { orUnavailable } from "../StoreUnavailable.ts"
import { findOperation } from "./findOperation.ts"
import { grantOfCredential, isGrantOfCredential, standingColumns } from "./grantStanding.ts"
import { fromRow, type OperationRow, publicColumns } from "./OperationRow.ts"
import { isFree } from "./queueFragments.ts"
import { whenUnlocked } from "./whenUnlocked.ts"

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const platform = yield* Effect.context<Platform>()
  const signal = yield* AcceptanceSignal

  const accept = Effect.fn("OperationLedger.accept")(
    function*(grant: GrantIdentity, request: FinancialRequest, scope: Scope | null = null) {
      const { digest, id, payload } = yield* prepareAcceptance(request)
      const identity = [grant.grant_id, grant.client_id, grant.subject]
      const statement = sql.unsafe<
        GrantStanding & { readonly provider: Provider } & (OperationRow | { readonly id: null })
      >(acceptStatement, [
        ...identity,
        id,
        request.type,
        request.key,
        digest,
        Hex.encode(payload.payload),
        payload.key_id,
        scope,
        grant.limited_to ?? null
      ])
      const [row] = yield* orUnavailable(whenUnlocked(sql, statement))
      if (row === undefined) return yield* new GrantUnknown()
      const refused = refusal(row, scope)
      if (refused !== null) return yield* refused
      if (row.id !== null) {
        yield* signal.announce(row.provider)
        return { operation: fromRow(row), created: true }
      }
      // The key was bound before. The first statement cannot see a row for whose commit it waited, so this is a second one.
      const [bound] = yield* orUnavailable(
        sql.unsafe<OperationRow & { readonly same_request: boolean }>(boundStatement, [
          ...identity,
          request.key,
          digest
        ])
      )
      if (bound === undefined || !bound.same_request) return yield* new BindingConflict({ key: request.key })
      return { operation: fromRow(bound), created: false }
    },
    Effect.provideContext(platform)
  )

  const show = (id: OperationId) => findOperation(sql, id)

  const transition = Effect.fn("OperationLedger.transition")(
    function*(id: OperationId, revision: number, to: Outcome, evidence: Schema.Json) {
      const refused = findTransitionError(yield* show(id), revision, to, evidence)
      if (refused !== null) return yield* refused
      const failure = to.state === "failed" ? to.failure : null
      const [row] = yield* orUnavailable(
        sql.unsafe<OperationRow>(transitionStatement, [
          id,
          revision,
          to.state,
          failure?.code ?? null,
          failure?.message ?? null,
          evidence === null ? null : JSON.stringify(evidence)
        ])
      )
      if (row !== undefined) return fromRow(row)
      const now = yield* show(id)
      return yield* now.revision === revision
        ? heldError(now, to)
        : new StaleOperation({ id, expected: revision, actual: now.revision })
    }
  )

  const cancel = Effect.fn("OperationLedger.cancel")(function*(id: OperationId, evidence: Schema.Json) {
    const text = evidence === null ? null : JSON.stringify(evidence)
    const [row] = yield* orUnavailable(sql.unsafe<OperationRow>(cancelStatement, [id, text]))
    return row === undefined ? yield* cancellationResult(yield* show(id)) : fromRow(row)
  })

  const review = Effect.fn("OperationLedger.review")(function*(id: OperationId, underReview: boolean) {
    const [row] = yield* orUnavailable(sql.unsafe<OperationRow>(reviewStatement, [id, underReview]))
    if (row !== undefined) return fromRow(row)
    const { state } = yield* show(id)
    return yield* new AlreadySettled({ id, state })
  })

  const isEmpty = Effect.map(
    orUnavailable(sql.unsafe("SELECT 1 FROM operations LIMIT 1", [])),
    (rows) => rows.length === 0
  )

  const history = Effect.fn("OperationLedger.history")(function*(id: OperationId) {
    const rows = yield* orUnavailable(sql.unsafe<HistoryRow>(historyStatement, [id]))
    if (rows.length === 0) return yield* new OperationNotFound({ id })
    return rows.map((row): HistoryEntry => ({ ...row, at: DateTime.fromDateUnsafe(row.at) }))
  })

  return { accept, transition, cancel, review, show, isEmpty, history }
})

/**
 * Grant, client and provider connection stay locked until the operation is recorded, so that a revocation, a deactivation or a
 * disconnection comes either before or after. The statement waits for no lock: see `whenUnlocked`.
 */
const acceptStatement = `
  WITH standing AS (
    SELECT g.id AS grant_id, g.client_id, g.resource_owner, g.subject, g.provider_connection_id, p.provider,
      ${standingColumns("$10::text IS NULL OR ($10 = ANY (g.scopes) AND ($11::text[] IS NULL OR $10 = ANY ($11)))")}
    ${grantOfCredential}
    WHERE ${isGrantOfCredential}
    FOR SHARE OF g, c, p NOWAIT
  ), o AS (
    INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type,
      idempotency_key, request_digest, state, revision)
    SELECT $4, client_id, resource_owner, subject, grant_id, provider_connection_id, $5, $6, decode($7, 'hex'),
      'accepted', 1
    FROM standing
    WHERE NOT revoked AND NOT expired AND client_active AND scope_granted AND provider_connected
    ON CONFLICT (client_id, subject, idempotency_key) DO NOTHING
    RETURNING *
  ), payload AS (
    INSERT INTO operation_payloads (operation_id, client_id, payload, key_id)
    SELECT id, client_id, decode($8, 'hex'), $9 FROM o
  )
  SELECT s.provider, s.revoked, s.expired, s.client_active, s.scope_granted, s.provider_connected, ${publicColumns}
  FROM standing s LEFT JOIN o ON true`

const boundStatement = `
  SELECT ${publicColumns},
    o.request_digest = decode($5, 'hex') AND o.resource_owner = g.resource_owner AS same_request
  FROM operations o JOIN grants g ON g.id = $1 AND g.client_id = $2
  WHERE o.client_id = $2 AND o.subject = $3 AND o.idempotency_key = $4`

/**
 * A held operation may have been sent, so it ends only by way of `submitting`. No `due_at` is given: the trigger sets the time
 * of the next component.
 */
const transitionStatement = `
  UPDATE operations o
  SET state = $3, revision = revision + 1, failure_code = $4, failure_message = $5, evidence = $6, due_at = NULL
  WHERE o.id = $1 AND o.revision = $2 AND (o.state <> 'accepted' OR $3 = 'submitting' OR ${isFree})
  RETURNING ${publicColumns}`

/** It waits for a claim of the same row, and then updates nothing. */
const cancelStatement = `
  UPDATE operations o SET state = 'cancelled', revision = revision + 1, evidence = $2
  WHERE o.id = $1 AND o.state = 'accepted' AND ${isFree}
  RETURNING ${publicColumns}`

const reviewStatement = `
  UPDATE operations o
  SET under_review = $2, reviewed_at = CASE WHEN $2 THEN o.reviewed_at ELSE clock_timestamp() END
  WHERE o.id = $1 AND o.due_at IS NOT NULL
  RETURNING ${publicColumns}`

interface HistoryRow {
  readonly revision: number
  readonly from: OperationState | null
  readonly to: OperationState
  readonly at: Date
  readonly evidence: Schema.Json
}

const historyStatement = `
  SELECT revision, from_state AS "from", to_state AS "to", at, evidence
  FROM operation_history WHERE operation_id = $1 ORDER BY revision`
