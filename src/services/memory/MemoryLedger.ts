/**
 * The state that the in-memory layers of `Grants`, `GrantVerifier`, `OperationStore` and `OperationLedger` share. The room `memory` has these
 * layers, each for one of `sql`. Read this file first.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import type { Approval } from "../../domain/Approval.ts"
import type {
  ClientId,
  ExternalId,
  Grant,
  GrantId,
  GrantIdentity,
  Issuer,
  PairwiseSubject,
  ProviderConnectionId,
  ProviderName,
  ResourceOwner,
  Scope
} from "../../domain/Grant.ts"
import type { HistoryEntry, Operation } from "../../domain/Operation.ts"
import type { ProviderReference, Recording } from "../../domain/Submission.ts"
import type { SealedPayload } from "../PayloadCipher.ts"
import type { Reservation } from "../rules/limits.ts"
import type { LimitState } from "../rules/providerPermits.ts"
import { MemoryRecords } from "./MemoryRecords.ts"

/** An operation with the members that its public form omits. */
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
  /** What the operation reserved of the limits of its grant. Null: they were none. */
  readonly reservation: Reservation | null
  /** The row of `approvals`. Null: the operation needed none. */
  readonly approval: MemoryApproval | null
  /** Of an operation that waits, or waited, for an approval. */
  readonly terms: SealedPayload | null
  readonly erases_terms: boolean
  /** Null once the operation is settled. */
  readonly payload: SealedPayload | null
  /** When the next component acts, in milliseconds since the epoch. Null once the operation is settled. */
  readonly due_at: number | null
  /** A worker found the operation due but not ready to be sent, and postponed it. */
  readonly waiting: boolean
  /** The timeline on which the operation was accepted or last released. */
  readonly timeline: number
  /** An operator or a late report of a worker holds the operation, on any timeline. */
  readonly hold_placed: boolean
  /** The value of `cluster.holds` in which an operator held the operation before any claim; null if nothing proves that. */
  readonly unsent_in: number | null
  /** The timeline on which the reconciler examined the held operation; null when it did not. */
  readonly examined_timeline: number | null
  readonly send_before: DateTime.Utc | null
  /** The id of the worker that claimed the operation, or took it over. */
  readonly claimed_by: string | null
  /** Why the worker returned its claim; null while a claim is held. */
  readonly return_reason: string | null
  readonly reference: ProviderReference | null
  /** The provider once confirmed that it received the operation: by an acknowledgement, or by a reference. */
  readonly acknowledged: boolean
  readonly reads: number
  readonly reviewed_at: DateTime.Utc | null
  /** When the status read under way began, in milliseconds since the epoch. */
  readonly reading_since: number | null
  /** When the read that the last hint asked for is due, in milliseconds since the epoch. */
  readonly hinted_at: number | null
  /** When a fence of the operation began. */
  readonly fence_started_at: DateTime.Utc | null
  readonly provider_account: string | null
  /** The row of `reversal_reads`. */
  readonly reversal_read: MemoryReversalRead | null
  /** The row of `operation_reversals`. */
  readonly reversal: { readonly recorded_at: DateTime.Utc; readonly evidence: Recording["evidence"] } | null
}

/** The members of an approval that its operation does not have. */
export type MemoryApproval = Pick<
  Approval,
  "request_digest" | "state" | "expires_at" | "decided_at" | "decided_as" | "decider" | "reason"
>

/** When a succeeded operation is read again, because it may be reversed. Milliseconds since the epoch. */
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

/** A row of `grant_revocations`: revokes one grant, or all of a subject, of a client at an issuer, or of a client. */
export interface MemoryRevocation {
  readonly client_id: ClientId
  readonly issuer: Issuer | null
  readonly external_id: ExternalId | null
  readonly subject: PairwiseSubject | null
  readonly revoked_at: DateTime.Utc
}

/**
 * A ledger in memory, lost with its process: for tests, demonstrations and examples. It keeps every rule of the PostgreSQL
 * layers except durability. It keeps only the terms of operations that wait for an approval, because the services of operators, which read all,
 * need PostgreSQL. One conformance suite runs against both.
 */
export class MemoryLedger extends Context.Service<MemoryLedger, {
  readonly clients: Map<ClientId, boolean>
  readonly connections: Map<ProviderConnectionId, MemoryProviderConnection>
  readonly grants: Map<GrantId, MemoryGrant>
  /** By the JSON of client, issuer, external id and subject. */
  readonly revocations: Map<string, MemoryRevocation>
  /** From the SHA-256 of a token, in hexadecimal, to the identity of its grant. */
  readonly tokens: Map<string, GrantIdentity>
  readonly operations: MemoryRecords<MemoryRecord>
  /** The rows of `provider_limits`. */
  readonly limits: Map<ProviderName, LimitState>
  /** Tells the ledgers of several processes apart, whose change tokens look alike. */
  readonly instance: string
  /** The timeline of the database, from 1. Tests add one for a failover. `holds`: how often `holdAll` ended the change tokens. */
  readonly cluster: { timeline: number; holds: number; life: string }
  /** Columns of `ledger_home`: the epoch, the life in which it was set, and the epoch of a release that is due. Empty: no records are required. */
  readonly home: Map<"epoch" | "life" | "due", string>
  /** The rows of `claim_batches`, by the JSON of worker, life and provider. */
  readonly batches: Map<string, number>
  readonly showGrant: (id: GrantId) => Grant | undefined
  readonly grantOf: (identity: GrantIdentity) => Grant | undefined
  readonly ownedBy: (grant: Grant) => ReadonlyArray<MemoryRecord>
}>()("financial-agents-gateway/services/memory/MemoryLedger") {
  static readonly layer: Layer.Layer<MemoryLedger> = Layer.effect(
    MemoryLedger,
    Effect.map(Random.nextInt, (instance) => {
      const clients = new Map<ClientId, boolean>()
      const connections = new Map<ProviderConnectionId, MemoryProviderConnection>()
      const grants = new Map<GrantId, MemoryGrant>()
      const operations = new MemoryRecords<MemoryRecord>()
      const showGrant = (id: GrantId): Grant | undefined => {
        const grant = grants.get(id)
        const connection = grant && connections.get(grant.provider_connection_id)
        return grant && connection && {
          ...grant,
          client_active: clients.get(grant.client_id) ?? false,
          provider: connection.provider,
          provider_connected: connection.connected
        }
      }
      return {
        clients,
        connections,
        grants,
        revocations: new Map(),
        tokens: new Map(),
        operations,
        limits: new Map(),
        instance: String(instance),
        cluster: { timeline: 1, holds: 0, life: "1" },
        home: new Map(),
        batches: new Map(),
        showGrant,
        grantOf: (identity) => {
          const grant = showGrant(identity.grant_id)
          return grant?.client_id === identity.client_id && grant.subject === identity.subject ? grant : undefined
        },
        ownedBy: (grant) =>
          [...operations.values()].filter(({ owner }) =>
            owner.resource_owner === grant.resource_owner && owner.subject === grant.subject
            && owner.client_id === grant.client_id
          )
      }
    })
  )
}
