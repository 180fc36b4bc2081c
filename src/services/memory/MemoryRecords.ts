/** The rows of the ledger in memory, and the operations with the order of their changes. */
import type * as DateTime from "effect/DateTime"
import type { Approval } from "../../domain/Approval.ts"
import type { Grant, ProviderConnectionId, ProviderName, ResourceOwner, Scope } from "../../domain/Grant.ts"
import type { HistoryEntry, Operation, OperationId } from "../../domain/Operation.ts"
import type { ProviderReference, Recording } from "../../domain/Submission.ts"
import type { SealedPayload } from "../PayloadCipher.ts"
import type { RevocationNames } from "../rules/grantRules.ts"
import type { Reservation } from "../rules/limits.ts"

/**
 * An operation with the members that its public form omits. A member with the name of a column of `operations` has the meaning of that
 * (`migrations`). A time that is a number is in milliseconds since the epoch.
 */
export interface MemoryRecord {
  readonly operation: Operation
  readonly owner: Pick<
    Grant,
    "grant_id" | "resource_owner" | "subject" | "client_id" | "provider_connection_id" | "provider"
  >
  /** The scopes of the accepting grant at the acceptance. */
  readonly scopes: ReadonlyArray<Scope>
  readonly key: string
  readonly digest: string
  readonly history: ReadonlyArray<HistoryEntry>
  readonly limited_by_grant: boolean
  /** What the operation reserved of the limits of its grant and its credential. Null: they were none. */
  readonly reservation: Reservation | null
  /** The row of `approvals`. Null: the operation needed none. */
  readonly approval: MemoryApproval | null
  /** Of an operation that waits, or waited, for an approval. */
  readonly terms: SealedPayload | null
  readonly erases_terms: boolean
  /** Null once the operation is settled. */
  readonly payload: SealedPayload | null
  readonly due_at: number | null
  readonly waiting: boolean
  readonly timeline: number
  readonly hold_placed: boolean
  /** An operator or a late report holds it, while it is accepted. */
  readonly hold_outlasts_approval: boolean
  /** The value of `cluster.holds` in which an operator held the operation before any claim; null if nothing proves that. */
  readonly unsent_in: number | null
  readonly examined_timeline: number | null
  readonly send_before: DateTime.Utc | null
  readonly claimed_by: string | null
  readonly return_reason: string | null
  readonly reference: ProviderReference | null
  readonly acknowledged: boolean
  readonly reads: number
  readonly reviewed_at: DateTime.Utc | null
  readonly reading_since: number | null
  readonly hinted_at: number | null
  readonly fence_started_at: DateTime.Utc | null
  readonly fencing_until: DateTime.Utc | null
  readonly provider_account: string | null
  readonly sent_as: string | null
  /** The row of `reversal_reads`. */
  readonly reversal_read: MemoryReversalRead | null
  /** The row of `operation_reversals`. */
  readonly reversal: { readonly recorded_at: DateTime.Utc; readonly evidence: Recording["evidence"] } | null
}

type MemoryApproval = Pick<
  Approval,
  "request_digest" | "state" | "expires_at" | "decided_at" | "decided_as" | "decider" | "reason"
>

/** When a succeeded operation is read again, because it may be reversed. */
export interface MemoryReversalRead {
  readonly due_at: number
  readonly until: number
  readonly reading_since: number | null
  readonly hinted_at: number | null
}

/** A row of `provider_connections`. */
export interface MemoryProviderConnection {
  readonly id: ProviderConnectionId
  readonly resource_owner: ResourceOwner
  readonly provider: ProviderName
  readonly connected: boolean
}

/** A grant without the standing of its client and its provider connection, which each use looks up. */
export type MemoryGrant = Omit<Grant, "client_active" | "provider" | "provider_connected">

/** A row of `grant_revocations`. */
export interface MemoryRevocation extends RevocationNames {
  readonly revoked_at: DateTime.Utc
}

/** The operations. A change of the public form gets the next position, as the triggers of PostgreSQL give it. */
export class MemoryRecords extends Map<OperationId, MemoryRecord> {
  #position = 0
  readonly #positions = new Map<OperationId, number>()

  override set(id: OperationId, record: MemoryRecord): this {
    const known = this.get(id)?.operation
    const { revision, under_review } = record.operation
    if (known?.revision !== revision || known.under_review !== under_review) this.#positions.set(id, ++this.#position)
    return super.set(id, record)
  }

  get lastPosition(): number {
    return this.#position
  }

  /** The position of the last change of an operation; 0 for an unknown one. */
  positionOf(id: OperationId): number {
    return this.#positions.get(id) ?? 0
  }
}
