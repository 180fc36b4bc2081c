/**
 * The room `services/operators`: what the command line and the console of operators find, count and do. Read this file first: what operators may do.
 *
 * Each action is recorded with the name of its operator. The record of an action that the ledger carries out is in its transaction. That
 * of a refused action has the reason.
 */
import * as Context from "effect/Context"
import type * as Digest from "effect/crypto/Digest"
import type * as SecureRandom from "effect/crypto/SecureRandom"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import type { ProviderName } from "../../domain/Grant.ts"
import {
  AlreadySettled,
  IllegalTransition,
  type Operation,
  type OperationId,
  OperationNotFound,
  StaleOperation
} from "../../domain/Operation.ts"
import { evidenceFaults } from "../../domain/OperatorEvidence.ts"
import type {
  AccountableOperator,
  ActingOperator,
  ActionRefusal,
  Advance,
  AdvanceRefusal,
  OperatorAction,
  OperatorActionRecord
} from "../../domain/operators/OperatorView.ts"
import { nothingToDo } from "../../domain/operators/recordTexts.ts"
import type { ShownTerms } from "../../domain/Terms.ts"
import type { HeldAll } from "../queue/Holds.ts"
import { makeOpenTerms } from "../rules/openPayload.ts"
import { makeRecord, withRecord } from "../sql/actionRecords.ts"
import { makeSql as makeLedger } from "../sql/ledger/SqlOperationLedger.ts"
import { type Instant, instantOf, publicColumns, sealedTermsOf, type TermsRow } from "../sql/OperationRow.ts"
import { makeHolds } from "../sql/queue/SqlHolds.ts"
import { makeStatusReads } from "../sql/queue/SqlStatusReads.ts"
import { heldByOperator, isFree, isUnsent, mayHold } from "../sql/queueFragments.ts"
import { orUnavailable, StoreUnavailable } from "../StoreUnavailable.ts"

export class OperatorActions extends Context.Service<OperatorActions, {
  /**
   * Performs the action. A cancellation has the name and the reason of the operator in its evidence, too.
   *
   * `revision` is the one that the operator saw. If the operation is at another one, the call fails with `StaleOperation` and
   * changes nothing. Without it the call acts on the operation as it is.
   *
   * After `StoreUnavailable` it is unknown whether the action happened: read the operation again. An action that happened is
   * recorded. A refusal may not be.
   */
  readonly perform: (
    action: OperatorAction,
    id: OperationId,
    operator: ActingOperator,
    revision?: number
  ) => Effect.Effect<Performed, ActionRefusal | StoreUnavailable>
  /** Yields or fails as `perform` would. It changes and records nothing: the ledger does the action, and takes it back. */
  readonly checkAction: (
    action: OperatorAction,
    id: OperationId,
    operator: ActingOperator,
    revision: number
  ) => Effect.Effect<Performed, ActionRefusal | StoreUnavailable>
  /**
   * Records what the operator knows of an operation from another source. The history gets the name and the reason of the operator, with
   * the evidence. Evidence is required to leave `indeterminate`, and to end any operation that may have been sent. A refusal names all
   * that is wrong with it. An outcome stores the reference of the payment, which no other operation of the provider may have. `revision`
   * and `StoreUnavailable` as in `perform`.
   */
  readonly advance: (
    advance: Advance,
    id: OperationId,
    operator: AccountableOperator,
    revision?: number
  ) => Effect.Effect<Operation, AdvanceRefusal | StoreUnavailable>
  /** Fails as `advance` would, and records nothing. Only a hold or a claim is not found. */
  readonly checkAdvance: (
    advance: Advance,
    operation: Operation,
    operator: AccountableOperator
  ) => Effect.Effect<void, AdvanceRefusal | StoreUnavailable>
  /**
   * The terms of operations, 1,000 at most, unmasked. One record names all of them; operations without terms are in neither. Terms that
   * the keys of this process do not open are `unreadableTerms`. Nothing is shown that is not recorded.
   */
  readonly showTerms: (
    ids: ReadonlyArray<OperationId>,
    operator: ActingOperator
  ) => Effect.Effect<ReadonlyMap<OperationId, ShownTerms>, StoreUnavailable>
  /** Holds all accepted operations, and ends all claims (`Holds.holdAll`). `StoreUnavailable` as in `perform`. */
  readonly holdAll: (operator: ActingOperator) => Effect.Effect<HeldAll, StoreUnavailable>
  /** Releases all held operations (`Holds.releaseAll`). `StoreUnavailable` as in `perform`. */
  readonly releaseAll: (operator: ActingOperator) => Effect.Effect<ReleasedAll, StoreUnavailable>
}>()("financial-agents-gateway/services/operators/OperatorActions") {
  static readonly layer: Layer.Layer<
    OperatorActions,
    never,
    SqlClient.SqlClient | Digest.Digest | SecureRandom.SecureRandom
  > = Layer.effect(
    OperatorActions,
    Effect.suspend(() => make)
  )
}

/** How many operations a release of all released, and how many stay held because an operator or a late report holds them. */
export interface ReleasedAll {
  readonly released: number
  readonly held_by_operators: number
}

/** The operation after an action, and the result that is recorded of it: `done`, or one of `nothingToDo`. */
export interface Performed {
  readonly operation: Operation
  readonly result: string
}

/**
 * Whether the role of the connection may perform the actions of operators. False also if the database lacks their table.
 */
export const mayActAsOperator = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly may_act: boolean }>`
    SELECT CASE WHEN to_regclass('operator_actions') IS NULL THEN false ELSE
      has_column_privilege('operator_actions', 'operator', 'INSERT') AND has_column_privilege('operations', 'state', 'UPDATE')
    END AS may_act`
  return row?.may_act === true
})

/** What the history says of an advance. The evidence replaces no member. */
const advanceEvidence = ({ evidence }: Advance, { name, reason }: AccountableOperator) => {
  const recorded = { by: "operator", operator: name, reason }
  return { ...recorded, ...evidence as object, ...recorded }
}

const isAboutEvidence = (refused: IllegalTransition | StaleOperation): refused is IllegalTransition =>
  refused._tag === "IllegalTransition"
  && (refused.reason === "evidence_required" || refused.reason === "evidence_refused")

const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  // On this client, so that they take part in its transactions.
  const ledger = yield* makeLedger
  const holds = yield* makeHolds
  const { hint } = yield* makeStatusReads
  const record = makeRecord(sql)
  const openTerms = yield* makeOpenTerms

  /** Locks the row until the end of the transaction, so that the operation stays at the revision. */
  const lock = (id: OperationId) =>
    Effect.map(orUnavailable(sql.unsafe<LockedRow>(lockStatement, [id])), ([row]) => row)

  const checkRevision = Effect.fnUntraced(function*(id: OperationId, expected: number) {
    const row = yield* lock(id)
    if (row === undefined) return yield* new OperationNotFound({ id })
    if (row.revision !== expected) return yield* new StaleOperation({ id, expected, actual: row.revision })
  })

  /** Makes the next status read due now, as a hint does. The reconciler reads under its own rules: consent, pauses and limits. */
  const readNow = Effect.fnUntraced(function*(id: OperationId) {
    const row = yield* lock(id)
    const operation = yield* ledger.show(id)
    const { state, terminal } = operation
    // A held one may have been sent, unless the ledger proves that it was not.
    if (row === undefined || state === "accepted" && row.is_unsent) return { operation, result: nothingToDo.unsent }
    const effect = yield* hint(row.provider, { operation_id: id }, Duration.zero)
    if (effect === "ignored" && terminal) return yield* new AlreadySettled({ id, state })
    return { operation, result: effect === "ignored" ? nothingToDo.read : "done" }
  })

  /** The row stays locked until the end of the transaction, so that the result is that of this call. */
  const setHold = Effect.fnUntraced(function*(action: "hold" | "release", id: OperationId) {
    const before = yield* lock(id)
    const operation = yield* holds[action](id)
    const isDone = action === "hold" ? before?.may_hold === true : before?.is_free === false
    return { operation, result: isDone ? "done" : nothingToDo[action] }
  })

  const act = (
    action: OperatorAction,
    id: OperationId,
    { name, reason }: ActingOperator
  ): Effect.Effect<Performed, ActionRefusal | StoreUnavailable> => {
    const done = Effect.map((operation: Operation) => ({ operation, result: "done" }))
    switch (action) {
      case "review":
        return done(ledger.review(id, true))
      case "end_review":
        return done(ledger.review(id, false))
      case "hold":
      case "release":
        return setHold(action, id)
      case "cancel":
        // A repetition changes nothing, so it is not done again.
        return Effect.gen(function*() {
          const before = yield* lock(id)
          const operation = yield* ledger.cancel(id, { by: "operator", operator: name, reason })
          return { operation, result: operation.revision === before?.revision ? nothingToDo.cancelled : "done" }
        })
      case "read":
        return readNow(id)
    }
  }

  /** The change and its record in one transaction, or the record of the refusal. */
  const recorded = <A, E extends ActionRefusal>(
    action: OperatorAction | "advance",
    id: OperationId,
    operator: ActingOperator,
    change: Effect.Effect<A, E | StoreUnavailable>,
    resultOf?: (done: A) => string
  ) => withRecord(sql, change, (result) => record(operator, { action, operation_id: id, result }), resultOf)

  const actAt = (action: OperatorAction, id: OperationId, operator: ActingOperator, revision?: number) =>
    Effect.andThen(revision === undefined ? Effect.void : checkRevision(id, revision), act(action, id, operator))

  const perform = Effect.fn("OperatorActions.perform")((...called: Parameters<typeof actAt>) => {
    const [action, id, operator] = called
    return recorded(action, id, operator, actAt(...called), ({ result }) => result)
  })

  const checkAction = Effect.fn("OperatorActions.checkAction")((...called: Parameters<typeof actAt>) =>
    // As a failure, what was done rolls back.
    Effect.flip(orUnavailable(sql.withTransaction(Effect.flip(actAt(...called))))).pipe(
      Effect.flatMap((done) => done instanceof StoreUnavailable ? Effect.fail(done) : Effect.succeed(done))
    )
  )

  const checkAdvance = Effect.fn("OperatorActions.checkAdvance")(
    function*(advance: Advance, { id, revision, state }: Operation, operator: AccountableOperator) {
      const { evidence, to } = advance
      const refused = yield* ledger.check(id, revision, to, advanceEvidence(advance, operator))
      const faults = evidence === null ? [] : evidenceFaults(evidence)
      if (refused !== null && (faults.length === 0 || !isAboutEvidence(refused))) return yield* refused
      if (faults.length === 0) return
      const detail = [...faults, ...refused?.detail === undefined ? [] : [refused.detail]].join("; ")
      return yield* new IllegalTransition({ id, from: state, to: to.state, reason: "evidence_refused", detail })
    }
  )

  const advance = Effect.fn("OperatorActions.advance")(
    (advance: Advance, id: OperationId, operator: AccountableOperator, revision?: number) =>
      recorded(
        "advance",
        id,
        operator,
        Effect.gen(function*() {
          const found = yield* ledger.show(id)
          const seen = { ...found, revision: revision ?? found.revision }
          yield* checkAdvance(advance, seen, operator)
          return yield* ledger.transition(id, seen.revision, advance.to, advanceEvidence(advance, operator))
        })
      )
  )

  const onAll = <A>(
    action: "hold_all" | "release_all",
    all: Effect.Effect<A, StoreUnavailable>,
    countOf: (changed: A) => number
  ) =>
    Effect.fn(`OperatorActions.${action}`)((operator: ActingOperator) =>
      orUnavailable(sql.withTransaction(
        Effect.tap(all, (changed) => record(operator, { action, affected: countOf(changed), result: "done" }))
      ))
    )

  const releaseAll = Effect.gen(function*() {
    const released = yield* holds.releaseAll
    const [left] = yield* orUnavailable(sql.unsafe<Pick<ReleasedAll, "held_by_operators">>(heldByOperatorsStatement))
    return { released, ...left! } satisfies ReleasedAll
  })

  const showTerms = Effect.fn("OperatorActions.showTerms")(
    (ids: ReadonlyArray<OperationId>, operator: ActingOperator) =>
      orUnavailable(sql.withTransaction(Effect.gen(function*() {
        const rows = yield* orUnavailable(sql.unsafe<TermsRow>(termsStatement, [ids]))
        if (rows.length > 0) {
          yield* record(operator, { action: "show_terms", operation_ids: rows.map(({ id }) => id), result: "done" })
        }
        const shown = yield* Effect.forEach(rows, (row) => openTerms(...sealedTermsOf(row)))
        return new Map(rows.map(({ id }, n) => [id as OperationId, shown[n]!]))
      })))
  )

  return OperatorActions.of({
    perform,
    checkAction,
    advance,
    checkAdvance,
    showTerms,
    holdAll: onAll("hold_all", holds.holdAll, ({ held, indeterminate }) => held + indeterminate),
    releaseAll: onAll("release_all", releaseAll, ({ released }) => released)
  })
})

const heldByOperatorsStatement =
  `SELECT count(*)::float8 AS held_by_operators FROM operations o WHERE ${heldByOperator}`

const termsStatement = `
  SELECT ${publicColumns}, o.terms, o.terms_key_id FROM operations o WHERE o.id = ANY ($1::uuid[]) AND o.terms IS NOT NULL`

interface LockedRow {
  readonly revision: number
  readonly provider: ProviderName
  readonly is_unsent: boolean
  readonly is_free: boolean
  readonly may_hold: boolean
}

const lockStatement =
  `SELECT o.revision, o.provider, ${isUnsent} AS is_unsent, o.state = 'accepted' AND ${isFree} AS is_free, ${mayHold} AS may_hold
    FROM operations o
  WHERE o.id = $1 FOR NO KEY UPDATE`

/** Most actions of one operation that an operator sees: the latest. */
const mostActions = 200

interface ActionRow extends Omit<OperatorActionRecord, "at"> {
  readonly at: Instant
}

/** The actions on an operation, and those on all since it was created. Oldest first. */
export const actionsOf = (sql: SqlClient.SqlClient, id: OperationId) =>
  Effect.map(
    orUnavailable(sql.unsafe<ActionRow>(actionsStatement, [id])),
    (rows) => rows.map((row): OperatorActionRecord => ({ ...row, at: instantOf(row.at) })).toReversed()
  )

const actionsStatement = `
  SELECT at, operator, via, action, reason, result, question FROM operator_actions
  WHERE operation_id = $1 OR operation_ids @> ARRAY[$1::uuid]
    OR action IN ('hold_all', 'release_all') AND at >= (SELECT created_at FROM operations WHERE id = $1) ORDER BY at DESC LIMIT ${mostActions}`
