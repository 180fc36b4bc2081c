/**
 * Acceptances in batches, in PostgreSQL.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as SqlClient from "effect/sql/SqlClient"
import { isSqlError } from "effect/sql/SqlError"
import { type GrantIdentity, GrantUnknown, type ProviderName, refusal, type Scope } from "../../domain/Grant.ts"
import {
  BindingConflict,
  type FinancialRequest,
  type IdempotencyKey,
  type InvalidFinancialRequest
} from "../../domain/Idempotency.ts"
import type { Operation, OperationId } from "../../domain/Operation.ts"
import { AcceptanceSignal } from "../AcceptanceSignal.ts"
import type { Acceptance, Accepted } from "../OperationLedger.ts"
import type { SealedPayload } from "../PayloadCipher.ts"
import { ProviderPayloads } from "../ProviderPayloads.ts"
import { maxBatchBytes, maxBatchRequests } from "../rules/acceptanceBatch.ts"
import { type Platform, prepareAcceptance } from "../rules/ledgerRules.ts"
import { makeFindRefusals } from "../rules/refuseUnsendable.ts"
import { orUnavailable, sqlState } from "../StoreUnavailable.ts"
import { acceptAllStatement, boundAllStatement } from "./acceptStatements.ts"
import { fromRow } from "./OperationRow.ts"
import type { AcceptedRow, BoundRow, makeAccept } from "./SqlAcceptance.ts"
import { whenUnlocked } from "./whenUnlocked.ts"

/** A valid request, with its place among the requests of the call. */
interface PreparedRequest {
  readonly index: number
  readonly request: FinancialRequest
  readonly id: OperationId
  readonly digest: string
  readonly payload: SealedPayload
  /** The providers that refuse the request, each with the effect that fails with the reason. */
  readonly refusals: ReadonlyMap<ProviderName, Effect.Effect<never, InvalidFinancialRequest>>
}

/** An operation that the batch created, and its request. */
interface Creation {
  readonly prepared: PreparedRequest
  readonly operation: Operation
}

type Batch = ReadonlyArray<PreparedRequest>

export const makeAcceptAll = Effect.fnUntraced(function*(accept: Effect.Success<typeof makeAccept>) {
  const sql = yield* SqlClient.SqlClient
  const platform = yield* Effect.context<Platform>()
  const signal = yield* AcceptanceSignal
  const findRefusals = makeFindRefusals(yield* ProviderPayloads)

  const prepare = Effect.fnUntraced(function*(request: FinancialRequest, index: number) {
    const prepared = yield* prepareAcceptance(request)
    return { ...prepared, index, request, refusals: yield* findRefusals(request) } satisfies PreparedRequest
  })

  /** The operations of keys that were bound before the batch, by the id that `prepare` made for the request. */
  const findBound = Effect.fnUntraced(function*(grant: GrantIdentity, batch: Batch) {
    if (batch.length === 0) return new Map<OperationId, BoundRow>()
    const rows = yield* orUnavailable(
      sql.unsafe<BoundRow & { readonly request_id: OperationId }>(boundAllStatement, [
        grant.grant_id,
        grant.client_id,
        grant.subject,
        batch.map(({ id }) => id),
        batch.map(({ request }) => request.key),
        batch.map(({ digest }) => digest)
      ])
    )
    return new Map(rows.map((row) => [row.request_id, row]))
  })

  /** Records a batch in one statement, and finds the result of each request. */
  const recordBatch = Effect.fnUntraced(function*(grant: GrantIdentity, batch: Batch, scope: Scope | null) {
    const statement = sql.unsafe<AcceptedRow>(acceptAllStatement, [
      grant.grant_id,
      grant.client_id,
      grant.subject,
      scope,
      grant.limited_to ?? null,
      batch.map(({ id }) => id),
      batch.map(({ request }) => request.type),
      batch.map(({ request }) => request.key),
      batch.map(({ digest }) => digest),
      batch.map(({ payload }) => payload.payload),
      // The driver encodes no array of nulls.
      batch.map(({ payload }) => payload.key_id ?? ""),
      // No name of a provider has a space.
      batch.map(({ refusals }) => [...refusals.keys()].join(" "))
    ])
    const rows = yield* orUnavailable(whenUnlocked(sql, statement))
    const [standing] = rows
    if (standing === undefined) return yield* new GrantUnknown()
    const refused = refusal(standing, scope)
    if (refused !== null) return yield* refused
    const creations = creationsOf(batch, rows)
    if (creations.size > 0) yield* signal.announce(standing.provider)
    // The first statement cannot see a row for whose commit it waited, so this is a second one.
    const bound = yield* findBound(grant, batch.filter(({ request }) => !creations.has(request.key)))
    return yield* Effect.forEach(batch, (prepared) =>
      Effect.exit(
        acceptanceOf(prepared, standing.provider, creations.get(prepared.request.key), bound.get(prepared.id))
      ))
  })

  /** A failure that concerns the grant or the store ends the call. Every other one is the result of the request. */
  const acceptAlone = (grant: GrantIdentity, { request }: PreparedRequest, scope: Scope | null) =>
    accept(grant, request, scope).pipe(
      Effect.map((accepted): Acceptance => Exit.succeed(accepted)),
      Effect.catchTags({
        BindingConflict: (error) => Effect.succeed<Acceptance>(Exit.fail(error)),
        InvalidFinancialRequest: (error) => Effect.succeed<Acceptance>(Exit.fail(error))
      }),
      Effect.catchDefect((defect) => Effect.succeed<Acceptance>(Exit.die(defect)))
    )

  /**
   * A statement that dies has recorded nothing. One request may be the cause, which the others must not share: so each is
   * accepted alone.
   */
  const acceptBatch = (grant: GrantIdentity, batch: Batch, scope: Scope | null) =>
    Effect.catchDefect(
      recordBatch(grant, batch, scope),
      (defect) =>
        Effect.andThen(
          warnOfDefect(batch.length, defect),
          Effect.forEach(batch, (prepared) => acceptAlone(grant, prepared, scope))
        )
    )

  return Effect.fn("OperationLedger.acceptAll")(
    function*(grant: GrantIdentity, requests: ReadonlyArray<FinancialRequest>, scope: Scope | null = null) {
      const results: Array<Acceptance> = []
      let batch: Array<PreparedRequest> = []
      let bytes = 0
      const finishBatch = Effect.fnUntraced(function*() {
        if (batch.length === 0) return
        const acceptances = yield* acceptBatch(grant, batch, scope)
        for (const [n, { index }] of batch.entries()) results[index] = acceptances[n]!
        batch = []
        bytes = 0
      })
      for (const [index, request] of requests.entries()) {
        const prepared = yield* Effect.exit(prepare(request, index))
        if (Exit.isFailure(prepared)) {
          results[index] = Exit.failCause(prepared.cause)
          continue
        }
        const { length } = prepared.value.payload.payload
        if (batch.length === maxBatchRequests || bytes + length > maxBatchBytes) yield* finishBatch()
        batch.push(prepared.value)
        bytes += length
      }
      yield* finishBatch()
      return results
    },
    Effect.provideContext(platform)
  )
})

/** The message of the database may quote values of the request, so the log has only its SQLSTATE. */
const warnOfDefect = (requests: number, defect: unknown): Effect.Effect<void> =>
  Effect.annotateLogs(
    Effect.logWarning("Batch of acceptances failed: accepting each of its requests alone"),
    { requests, sqlstate: isSqlError(defect) ? sqlState(defect) : "" }
  )

/** The operations that the batch created, by key: each key has at most one. */
const creationsOf = (
  batch: Batch,
  rows: ReadonlyArray<AcceptedRow>
): ReadonlyMap<IdempotencyKey, Creation> => {
  const byId = new Map<string, PreparedRequest>(batch.map((prepared) => [prepared.id, prepared]))
  return new Map(rows.flatMap((row) => {
    const prepared = row.id === null ? undefined : byId.get(row.id)
    return row.id === null || prepared === undefined
      ? []
      : [[prepared.request.key, { prepared, operation: fromRow(row) }] as const]
  }))
}

/** The result of a request, as if the requests of the batch had come one after the other. */
const acceptanceOf = (
  { digest, index, refusals, request: { key } }: PreparedRequest,
  provider: ProviderName,
  creation: Creation | undefined,
  bound: BoundRow | undefined
): Effect.Effect<Accepted, BindingConflict | InvalidFinancialRequest> => {
  const repeated = (operation: Operation, isSame: boolean) =>
    isSame ? Effect.succeed({ operation, created: false }) : Effect.fail(new BindingConflict({ key }))
  if (creation !== undefined && index >= creation.prepared.index) {
    const { operation, prepared } = creation
    return index === prepared.index
      ? Effect.succeed({ operation, created: true })
      : repeated(operation, digest === prepared.digest)
  }
  if (bound !== undefined) return repeated(fromRow(bound), bound.same_request)
  // The key was free when the request came, so only its provider can have refused it.
  return refusals.get(provider) ?? Effect.fail(new BindingConflict({ key }))
}
