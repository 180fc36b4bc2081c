/**
 * The write side: operations are accepted once for each request binding, and move along the transition table.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Digest from "effect/crypto/Digest"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import {
  BindingConflict,
  canonicalPayload,
  type FinancialRequest,
  type InvalidFinancialRequest,
  requestDigest,
  validateRequest
} from "../domain/Binding.ts"
import {
  type GrantIdentity,
  type GrantRefusal,
  type GrantStanding,
  GrantUnknown,
  type Provider,
  refusal,
  type Scope,
  standingAt,
  standingFor
} from "../domain/Grant.ts"
import {
  AlreadySettled,
  canTransition,
  type HistoryEntry,
  IllegalTransition,
  isOperationFailure,
  isProof,
  type Operation,
  type OperationId,
  OperationNotFound,
  type OperationState,
  type Outcome,
  requiresProof,
  StaleOperation
} from "../domain/Operation.ts"
import { AcceptanceSignal } from "./AcceptanceSignal.ts"
import { MemoryLedger, moveRecord } from "./MemoryLedger.ts"
import { fromRow, type OperationRow, publicColumns } from "./OperationRow.ts"
import { PayloadCipher } from "./PayloadCipher.ts"
import { orUnavailable, type StoreUnavailable } from "./StoreUnavailable.ts"

/** What became of a financial request: its operation, and whether this very call created it. */
export interface Accepted {
  readonly operation: Operation
  readonly created: boolean
}

type Platform = Digest.Digest | SecureRandom.SecureRandom

/**
 * Records what happens to operations. It trusts its caller to know which operation it may move: HTTP clients never
 * reach it.
 */
export class OperationLedger extends Context.Service<OperationLedger, {
  /**
   * Accepts a financial request, at most once for each binding of client, subject and idempotency key, for ever: the
   * same request returns the same operation, another request under the same key is a `BindingConflict`. The grant must
   * be good and have the scope, if one is named, its client must be active and its provider connected.
   *
   * After `StoreUnavailable` nobody knows whether the request was recorded: repeat it with the same key.
   */
  readonly accept: (
    grant: GrantIdentity,
    request: FinancialRequest,
    scope?: Scope
  ) => Effect.Effect<Accepted, GrantRefusal | BindingConflict | InvalidFinancialRequest | StoreUnavailable>
  /**
   * Moves the operation if it is still at `revision` (compare-and-set), and records the evidence in its history.
   * Evidence is what proved the transition, as JSON, or null; leaving `indeterminate` requires an object that is not empty.
   *
   * After `StoreUnavailable` nobody knows whether the move was recorded: read the operation again.
   */
  readonly transition: (
    id: OperationId,
    revision: number,
    to: Outcome,
    evidence: Schema.Json
  ) => Effect.Effect<Operation, OperationNotFound | StaleOperation | IllegalTransition | StoreUnavailable>
  /**
   * Cancels an operation that nobody has claimed yet: once it is `submitting`, a mutation may be on its way, and this is
   * an `IllegalTransition`. So it is while a failover holds the operation, because it may have been sent before. An
   * operation that is cancelled already stays so.
   */
  readonly cancel: (
    id: OperationId,
    evidence: Schema.Json
  ) => Effect.Effect<Operation, OperationNotFound | IllegalTransition | StoreUnavailable>
  /**
   * Puts an operation under review, or ends the review; its age counts anew from there. Once an operation is settled
   * there is nothing to review.
   */
  readonly review: (
    id: OperationId,
    underReview: boolean
  ) => Effect.Effect<Operation, OperationNotFound | AlreadySettled | StoreUnavailable>
  /** The operation in its public form, whoever owns it. */
  readonly show: (id: OperationId) => Effect.Effect<Operation, OperationNotFound | StoreUnavailable>
  /** Whether nothing was ever accepted. */
  readonly isEmpty: Effect.Effect<boolean, StoreUnavailable>
  /** Everything that ever happened to the operation, oldest first. */
  readonly history: (
    id: OperationId
  ) => Effect.Effect<ReadonlyArray<HistoryEntry>, OperationNotFound | StoreUnavailable>
}>()("financial-agents-gateway/services/OperationLedger") {
  static readonly layer: Layer.Layer<OperationLedger, never, SqlClient.SqlClient | Platform> = Layer.effect(
    OperationLedger,
    Effect.suspend(() => makeSql)
  )

  static readonly layerMemory: Layer.Layer<OperationLedger, never, MemoryLedger | Platform> = Layer.effect(
    OperationLedger,
    Effect.suspend(() => makeMemory)
  )
}

/** What is made of a request before anything is looked up or written. */
const draw = Effect.fnUntraced(function*(request: FinancialRequest) {
  yield* validateRequest(request)
  const random = yield* SecureRandom.SecureRandom
  const cipher = yield* PayloadCipher
  const id = (yield* random.uuidV7()) as OperationId
  return {
    id,
    payload: yield* cipher.seal(id, yield* canonicalPayload(request.payload)),
    digest: Hex.encode(yield* requestDigest(request))
  }
})

/** Why an operation that was read like this may not move there, or null when it may. */
const decide = (
  operation: Operation,
  revision: number,
  to: Outcome,
  evidence: Schema.Json
): StaleOperation | IllegalTransition | null => {
  const { id, state: from } = operation
  if (operation.revision !== revision) {
    return new StaleOperation({ id, expected: revision, actual: operation.revision })
  }
  const illegal = (reason: IllegalTransition["reason"]) => new IllegalTransition({ id, from, to: to.state, reason })
  if (!canTransition(from, to.state)) return illegal("not_permitted")
  if (requiresProof(from) && !isProof(evidence)) return illegal("proof_required")
  if (to.state === "failed" && !isOperationFailure(to.failure)) return illegal("invalid_failure")
  return null
}

const isHeld = ({ id, state: from }: Operation, to: Outcome) =>
  new IllegalTransition({ id, from, to: to.state, reason: "held" })

/** What became of a cancellation that found the operation no longer `accepted`, or held. */
const cancelled = (operation: Operation): Effect.Effect<Operation, IllegalTransition> => {
  const { id, state: from } = operation
  if (from === "cancelled") return Effect.succeed(operation)
  return Effect.fail(
    from === "accepted"
      ? isHeld(operation, { state: "cancelled" })
      : new IllegalTransition({ id, from, to: "cancelled", reason: "not_permitted" })
  )
}

// --- PostgreSQL

const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const platform = yield* Effect.context<Platform>()
  const signal = yield* AcceptanceSignal

  const accept = Effect.fn("OperationLedger.accept")(
    function*(grant: GrantIdentity, request: FinancialRequest, scope: Scope | null = null) {
      const { digest, id, payload } = yield* draw(request)
      const identity = [grant.grant_id, grant.client_id, grant.subject]
      const [row] = yield* orUnavailable(
        sql.unsafe<GrantStanding & { readonly provider: Provider } & (OperationRow | { readonly id: null })>(
          acceptStatement,
          [
            ...identity,
            id,
            request.type,
            request.key,
            digest,
            Hex.encode(payload.payload),
            payload.key_id,
            scope,
            grant.limited_to ?? null
          ]
        )
      )
      if (row === undefined) return yield* new GrantUnknown()
      const refused = refusal(row, scope)
      if (refused !== null) return yield* refused
      if (row.id !== null) {
        yield* signal.announce(row.provider)
        return { operation: fromRow(row), created: true }
      }
      // The key was bound before. A statement of its own, because the first one cannot see what it had to wait for.
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

  const show = (id: OperationId) =>
    Effect.flatMap(
      orUnavailable(sql.unsafe<OperationRow>(`SELECT ${publicColumns} FROM operations o WHERE o.id = $1`, [id])),
      ([row]) => row === undefined ? Effect.fail(new OperationNotFound({ id })) : Effect.succeed(fromRow(row))
    )

  const transition = Effect.fn("OperationLedger.transition")(
    function*(id: OperationId, revision: number, to: Outcome, evidence: Schema.Json) {
      const refused = decide(yield* show(id), revision, to, evidence)
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
        ? isHeld(now, to)
        : new StaleOperation({ id, expected: revision, actual: now.revision })
    }
  )

  const cancel = Effect.fn("OperationLedger.cancel")(function*(id: OperationId, evidence: Schema.Json) {
    const text = evidence === null ? null : JSON.stringify(evidence)
    const [row] = yield* orUnavailable(sql.unsafe<OperationRow>(cancelStatement, [id, text]))
    return row === undefined ? yield* cancelled(yield* show(id)) : fromRow(row)
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

  return OperationLedger.of({ accept, transition, cancel, review, show, isEmpty, history })
})

/**
 * Grant, client and binding stay locked until the operation is recorded, so that a revocation, a deactivation or a
 * disconnection comes either before or after.
 */
const acceptStatement = `
  WITH standing AS (
    SELECT g.id AS grant_id, g.client_id, g.resource_owner, g.subject, g.provider_binding_id, p.provider,
      g.revoked_at IS NOT NULL AS revoked,
      g.expires_at <= now() AS expired,
      c.active AS client_active,
      $10::text IS NULL OR ($10 = ANY (g.scopes) AND ($11::text[] IS NULL OR $10 = ANY ($11))) AS scope_granted,
      p.connected AS provider_connected
    FROM grants g
    JOIN clients c ON c.id = g.client_id
    JOIN provider_bindings p ON p.id = g.provider_binding_id
    WHERE g.id = $1 AND g.client_id = $2 AND g.subject = $3
    FOR SHARE OF g, c, p
  ), o AS (
    INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_binding_id, type,
      idempotency_key, request_digest, state, revision)
    SELECT $4, client_id, resource_owner, subject, grant_id, provider_binding_id, $5, $6, decode($7, 'hex'),
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

/** What is held may have been sent, so nothing ends it that is no account of a submission. */
const transitionStatement = `
  UPDATE operations o
  SET state = $3, revision = revision + 1, failure_code = $4, failure_message = $5, evidence = $6
  WHERE o.id = $1 AND o.revision = $2
    AND (o.state <> 'accepted' OR $3 = 'submitting' OR o.timeline = ledger_timeline())
  RETURNING ${publicColumns}`

/** Of one row, so that it waits for a claim of the same row, and then finds that it came too late. */
const cancelStatement = `
  UPDATE operations o SET state = 'cancelled', revision = revision + 1, evidence = $2
  WHERE o.id = $1 AND o.state = 'accepted' AND o.timeline = ledger_timeline()
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

// --- memory: whatever is looked up and then written happens in one synchronous step

const makeMemory = Effect.gen(function*() {
  const memory = yield* MemoryLedger
  const platform = yield* Effect.context<Platform>()
  const signal = yield* AcceptanceSignal
  const now = Effect.map(Clock.currentTimeMillis, (millis) => DateTime.makeUnsafe(millis))

  const record = (id: OperationId) =>
    Effect.suspend(() => {
      const found = memory.operations.get(id)
      return found === undefined ? Effect.fail(new OperationNotFound({ id })) : Effect.succeed(found)
    })

  const accept = Effect.fn("OperationLedger.accept")(
    function*(identity: GrantIdentity, request: FinancialRequest, scope: Scope | null = null) {
      const { digest, id, payload } = yield* draw(request)
      const at = yield* now
      return yield* Effect.suspend((): Effect.Effect<Accepted, GrantRefusal | BindingConflict> => {
        const grant = memory.grantOf(identity)
        if (grant === undefined) return Effect.fail(new GrantUnknown())
        const refused = refusal(standingFor(identity, standingAt(grant, scope, at), scope), scope)
        if (refused !== null) return Effect.fail(refused)
        const bound = [...memory.operations.values()].find(({ key, owner }) =>
          key === request.key && owner.client_id === grant.client_id && owner.subject === grant.subject
        )
        if (bound !== undefined) {
          return bound.digest === digest && bound.owner.resource_owner === grant.resource_owner
            ? Effect.succeed({ operation: bound.operation, created: false })
            : Effect.fail(new BindingConflict({ key: request.key }))
        }
        const operation = newOperation(id, request, at)
        memory.operations.set(id, {
          operation,
          owner: grant,
          scopes: grant.scopes,
          key: request.key,
          digest,
          history: [{ revision: 1, from: null, to: "accepted", at, evidence: null }],
          payload,
          due_at: at.epochMilliseconds,
          timeline: memory.cluster.timeline,
          send_before: null,
          reference: null,
          reads: 0,
          reviewed_at: null
        })
        return Effect.as(signal.announce(grant.provider), { operation, created: true })
      })
    },
    Effect.provideContext(platform)
  )

  const transition = Effect.fn("OperationLedger.transition")(
    function*(id: OperationId, revision: number, to: Outcome, evidence: Schema.Json) {
      const at = yield* now
      return yield* Effect.suspend(
        (): Effect.Effect<Operation, OperationNotFound | StaleOperation | IllegalTransition> => {
          const found = memory.operations.get(id)
          if (found === undefined) return Effect.fail(new OperationNotFound({ id }))
          const refused = decide(found.operation, revision, to, evidence)
          if (refused !== null) return Effect.fail(refused)
          if (
            found.operation.state === "accepted" && to.state !== "submitting"
            && found.timeline !== memory.cluster.timeline
          ) {
            return Effect.fail(isHeld(found.operation, to))
          }
          const moved = moveRecord(found, to, evidence, at)
          memory.operations.set(id, moved)
          return Effect.succeed(moved.operation)
        }
      )
    }
  )

  const cancel = Effect.fn("OperationLedger.cancel")(function*(id: OperationId, evidence: Schema.Json) {
    const at = yield* now
    return yield* Effect.flatMap(record(id), (found) => {
      if (found.operation.state !== "accepted" || found.timeline !== memory.cluster.timeline) {
        return cancelled(found.operation)
      }
      const moved = moveRecord(found, { state: "cancelled" }, evidence, at)
      memory.operations.set(id, moved)
      return Effect.succeed(moved.operation)
    })
  })

  const review = Effect.fn("OperationLedger.review")(function*(id: OperationId, underReview: boolean) {
    const at = yield* now
    return yield* Effect.flatMap(record(id), (found) => {
      const { state, terminal } = found.operation
      if (terminal) return Effect.fail(new AlreadySettled({ id, state }))
      const operation = { ...found.operation, under_review: underReview }
      memory.operations.set(id, { ...found, operation, reviewed_at: underReview ? found.reviewed_at : at })
      return Effect.succeed(operation)
    })
  })

  return OperationLedger.of({
    accept,
    transition,
    cancel,
    review,
    show: (id) => Effect.map(record(id), ({ operation }) => operation),
    isEmpty: Effect.sync(() => memory.operations.size === 0),
    history: (id) => Effect.map(record(id), ({ history }) => history)
  })
})

const newOperation = (id: OperationId, { type }: FinancialRequest, at: DateTime.Utc): Operation => ({
  id,
  type,
  state: "accepted",
  terminal: false,
  submission_uncertain: false,
  under_review: false,
  revision: 1,
  created_at: at,
  updated_at: at,
  completed_at: null,
  failure: null
})
