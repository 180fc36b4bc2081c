import * as DateTime from "effect/DateTime"
import type { ProviderConnectionId, ResourceOwner } from "../../../domain/Grant.ts"
import type { OperationId } from "../../../domain/Operation.ts"
import type { ProviderOperation } from "../../../domain/Submission.ts"

/** The columns of an operation that its provider sees, and its revision: `submissionColumns`. */
export interface SubmissionRow {
  readonly id: OperationId
  readonly type: string
  readonly resource_owner: ResourceOwner
  readonly provider_connection_id: ProviderConnectionId
  readonly send_before: Date | null
  readonly revision: number
}

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
