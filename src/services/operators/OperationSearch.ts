/**
 * Reads of operators: operations of any owner, by what an operator knows of them, with masked terms. No HTTP client of the public API
 * reaches it.
 */
import * as Context from "effect/Context"
import type * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import { IdempotencyKey } from "../../domain/Idempotency.ts"
import { type HistoryEntry, isOperationId, type OperationId, OperationNotFound } from "../../domain/Operation.ts"
import { HeldOperations } from "../../domain/operators/HeldOperations.ts"
import {
  type ActingOperator,
  type OperationListQuery,
  type OperatorDetail,
  type OperatorPage,
  type OperatorSummary,
  UnknownPage
} from "../../domain/operators/OperatorView.ts"
import { isProviderReference } from "../../domain/Submission.ts"
import { maskTerms } from "../../domain/Terms.ts"
import { makeOpenTerms } from "../rules/openPayload.ts"
import { payeeIndexes } from "../rules/prepareAcceptance.ts"
import { type ApprovalStatusRow, toApprovalStatus } from "../sql/ledger/SqlApprovals.ts"
import { type Instant, instantOf, sealedTermsOf } from "../sql/OperationRow.ts"
import { type OperatorRow, toStanding, toSummary } from "../sql/operators/OperatorRow.ts"
import { decodePosition, encodePosition } from "../sql/operators/searchSources.ts"
import {
  detailStatement,
  findSource,
  findStatement,
  heldStatement,
  latestHistoryStatement,
  listStatement,
  type Sorted
} from "../sql/operators/searchStatements.ts"
import { orUnavailable, type StoreUnavailable } from "../StoreUnavailable.ts"
import { actionsOf, OperatorActions } from "./OperatorActions.ts"

export class OperationSearch extends Context.Service<OperationSearch, {
  /** All held operations, counted by provider and reason. It reads each of them. */
  readonly held: Effect.Effect<HeldOperations, StoreUnavailable>
  /**
   * One page of operations. A list by payee tells a member of the terms: use `listRecorded`. It looks at 10,000 rows of one index at most, so its cost does not grow with the ledger. A list by
   * resource owner also asks once for each client. While nothing changes, the pages together have each matching operation once.
   */
  readonly list: (query: OperationListQuery) => Effect.Effect<OperatorPage, UnknownPage | StoreUnavailable>
  /**
   * The operations with this id, idempotency key or provider reference, by the last transition, newest first, 20 at most. The match
   * is exact. Of a key that more than 1,000 operations have it sees 1,000.
   */
  readonly find: (text: string) => Effect.Effect<ReadonlyArray<OperatorSummary>, StoreUnavailable>
  /** History and actions are bounded: the latest 200 of each. */
  readonly detail: (id: OperationId) => Effect.Effect<OperatorDetail, OperationNotFound | StoreUnavailable>
}>()("financial-agents-gateway/services/operators/OperationSearch") {
  static readonly layer: Layer.Layer<OperationSearch, never, SqlClient.SqlClient | Digest.Digest> = Layer.effect(
    OperationSearch,
    Effect.suspend(() => make)
  )
}

/** Rows that the statements of one page look at, 10,000 together. Most pages need the first statement alone. */
const looks = [1001, 3000, 5999]

const isIdempotencyKey = Schema.is(IdempotencyKey)

type ListRow = Sorted & (OperatorRow | { readonly id: null })

const isFound = (row: ListRow): row is Sorted & OperatorRow => row.id !== null

const decodeHeld = Schema.decodeUnknownSync(HeldOperations)

const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const openTerms = yield* makeOpenTerms
  const summaryOf = (row: OperatorRow) =>
    Effect.map(openTerms(...sealedTermsOf(row), maskTerms), (terms) => toSummary(row, terms))

  const held = Effect.suspend(() => orUnavailable(sql.unsafe(heldStatement))).pipe(
    Effect.map(([row]) => decodeHeld(row)),
    Effect.withSpan("OperationSearch.held")
  )

  const list = Effect.fn("OperationSearch.list")(function*({ payee, ...filter }: OperationListQuery) {
    const query = payee === undefined
      ? filter
      : { ...filter, payee_indexes: (yield* payeeIndexes(payee)).map(Hex.encode) }
    const source = findSource(query)
    if (source === null) return { operations: [], next: null } satisfies OperatorPage
    const name = `${source.name}.${query.order}`
    const limit = Math.min(1000, Math.max(1, query.limit))
    const found: Array<OperatorSummary> = []
    let after = query.after === undefined
      ? null
      : decodePosition(query.after, name, source.sort.map(({ form }) => form))
    if (query.after !== undefined && after === null) return yield* new UnknownPage()
    for (const rows of looks) {
      const left = limit - found.length
      const { parameters, text } = listStatement(query, { after, rows, limit: left })
      const answer = yield* orUnavailable(sql.unsafe<ListRow>(text, parameters))
      const matches = answer.filter(isFound)
      const page = matches.slice(0, left)
      found.push(...yield* Effect.forEach(page, summaryOf))
      const { frontier } = answer[0]!
      after = matches.length > left ? page.at(-1)!.sort : frontier
      if (after === null || found.length === limit) break
    }
    return { operations: found, next: after === null ? null : encodePosition(name, after) } satisfies OperatorPage
  }, Effect.provideContext(yield* Effect.context<Digest.Digest>()))

  const find = Effect.fn("OperationSearch.find")((text: string) =>
    Effect.flatMap(
      orUnavailable(sql.unsafe<OperatorRow>(findStatement, [
        isOperationId(text) ? text : null,
        isIdempotencyKey(text) ? text : null,
        isProviderReference(text) ? text : null
      ])),
      (rows) => Effect.forEach(rows, summaryOf)
    )
  )

  const historyOf = (id: OperationId, revision: number) =>
    Effect.map(
      orUnavailable(sql.unsafe<HistoryRow>(latestHistoryStatement, [id, revision])),
      (rows) => rows.map((row): HistoryEntry => ({ ...row, at: instantOf(row.at) })).toReversed()
    )

  const detail = Effect.fn("OperationSearch.detail")(function*(id: OperationId) {
    const [row] = yield* orUnavailable(sql.unsafe<DetailRow>(detailStatement, [id]))
    if (row === undefined) return yield* new OperationNotFound({ id })
    return {
      ...yield* summaryOf(row),
      subject: row.subject,
      grant_id: row.grant_id,
      provider_connection_id: row.provider_connection_id,
      scopes: row.scopes,
      acknowledged: row.acknowledged,
      last_read: row.last_read === null ? null : { question: null, ...row.last_read, at: instantOf(row.last_read.at) },
      standing: toStanding(row),
      approval: row.approval_state === null ? null : toApprovalStatus({ ...row, approval_state: row.approval_state }),
      reversal: row.reversed_at === null ? null : { at: instantOf(row.reversed_at), evidence: row.reversal_evidence },
      history: yield* historyOf(id, row.revision),
      actions: yield* actionsOf(sql, id)
    } satisfies OperatorDetail
  })

  return OperationSearch.of({ held, list, find, detail })
})

interface DetailRow extends OperatorRow, Omit<ApprovalStatusRow, "approval_state"> {
  readonly approval_state: ApprovalStatusRow["approval_state"] | null
  readonly reversed_at: Instant | null
  readonly reversal_evidence: Schema.Json
}

interface HistoryRow extends Omit<HistoryEntry, "at"> {
  readonly at: Instant
}

/** Makes `OperationSearch.list` for an operator. By payee it shows nothing that `OperatorActions.showTerms` did not record. */
export const makeListRecorded = Effect.gen(function*() {
  const { list } = yield* OperationSearch
  const { showTerms } = yield* OperatorActions
  return Effect.fnUntraced(function*(query: OperationListQuery, operator: ActingOperator) {
    const page = yield* list(query)
    if (query.payee === undefined || page.operations.length === 0) return page
    const shown = yield* showTerms(page.operations.map(({ operation }) => operation.id), operator)
    const operations = page.operations.map((found) => ({
      ...found,
      terms: shown.get(found.operation.id) ?? found.terms
    }))
    return { ...page, operations } satisfies OperatorPage
  })
})
