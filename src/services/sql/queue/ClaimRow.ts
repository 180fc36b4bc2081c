import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import type { ClaimBatch } from "../../../domain/ClaimBatch.ts"
import type { Claim } from "../../../domain/Submission.ts"
import { makeOpenPayload } from "../../rules/openPayload.ts"
import { type SubmissionRow, toProviderOperation } from "./SubmissionRow.ts"

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
