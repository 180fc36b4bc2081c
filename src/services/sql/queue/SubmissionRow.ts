/** Rows of operations as the queue returns them. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import type { ProviderConnectionId, ResourceOwner } from "../../../domain/Grant.ts"
import type { OperationId } from "../../../domain/Operation.ts"
import type { Claim, ClaimBatch, ProviderOperation } from "../../../domain/Submission.ts"
import { makeOpenPayload } from "../../rules/openPayload.ts"

/** The columns of an operation that its provider sees, and its revision: `submissionColumns`. */
export interface SubmissionRow {
  readonly id: OperationId
  readonly type: string
  readonly resource_owner: ResourceOwner
  readonly provider_connection_id: ProviderConnectionId
  readonly send_before: Date | null
  readonly revision: number
}

/** The operation as its provider sees it. */
export const toProviderOperation = (row: SubmissionRow): ProviderOperation => ({
  id: row.id,
  type: row.type,
  resource_owner: row.resource_owner,
  provider_connection_id: row.provider_connection_id,
  send_before: row.send_before === null ? null : DateTime.fromDateUnsafe(row.send_before)
})

/** An optional instant as a parameter of a statement. */
export const toDate = (instant: DateTime.Utc | null | undefined): Date | null =>
  instant == null ? null : DateTime.toDateUtc(instant)

/** The columns of a claimed operation, and of its payload: null if the payload is missing. */
export interface ClaimRow extends SubmissionRow {
  readonly created_at: Date
  readonly claimed_at: Date
  readonly request_digest: Uint8Array
  readonly payload: Uint8Array | null
  readonly key_id: string | null
  readonly batch?: ClaimBatch
}

/** Makes the function from a row to a claim, which opens the payload when the worker asks for it. */
export const makeToClaim = Effect.gen(function*() {
  const openPayload = yield* makeOpenPayload
  return (row: ClaimRow): Claim => ({
    operation: toProviderOperation(row),
    revision: row.revision,
    claimed_at: DateTime.fromDateUnsafe(row.claimed_at),
    ...row.batch === undefined ? {} : { batch: row.batch },
    payload: openPayload({
      id: row.id,
      type: row.type,
      created_at: DateTime.fromDateUnsafe(row.created_at),
      request_digest: Hex.encode(row.request_digest),
      sealed: row.payload === null ? null : { key_id: row.key_id, payload: row.payload }
    })
  })
})
