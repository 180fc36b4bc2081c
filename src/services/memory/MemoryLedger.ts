/**
 * The state that the in-memory layers of `Grants`, `GrantVerifier`, `OperationStore` and `OperationLedger` share.
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Layer from "effect/Layer"
import type {
  ClientId,
  ExternalId,
  Grant,
  GrantId,
  GrantIdentity,
  Issuer,
  PairwiseSubject,
  Provider,
  ProviderConnectionId,
  ResourceOwner,
  Scope
} from "../../domain/Grant.ts"
import type { HistoryEntry, Operation, OperationId } from "../../domain/Operation.ts"
import type { ProviderReference } from "../../domain/Submission.ts"
import type { SealedPayload } from "../PayloadCipher.ts"

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
  /** The timeline on which the reconciler examined the held operation; null when it did not. */
  readonly examined_timeline: number | null
  readonly send_before: DateTime.Utc | null
  readonly reference: ProviderReference | null
  /** The provider once confirmed that it received the operation: by an acknowledgement, or by a reference. */
  readonly acknowledged: boolean
  readonly reads: number
  readonly reviewed_at: DateTime.Utc | null
}

export interface MemoryRequestBinding {
  readonly id: ProviderConnectionId
  readonly resource_owner: ResourceOwner
  readonly provider: Provider
  readonly connected: boolean
}

/** What `Grants` keeps of a grant; the standing of its client and its binding is looked up with each use. */
export type MemoryGrant = Omit<Grant, "client_active" | "provider" | "provider_connected">

/** What was revoked, seen or not: one grant, or everything of a subject, of an issuer's client or of a client. */
export interface MemoryRevocation {
  readonly client_id: ClientId
  readonly issuer: Issuer | null
  readonly external_id: ExternalId | null
  readonly subject: PairwiseSubject | null
  readonly revoked_at: DateTime.Utc
}

/**
 * A ledger that lives and dies with the process: for tests, demonstrations and examples. It keeps every rule that the
 * PostgreSQL layers keep (one conformance suite runs against both), except durability.
 */
export class MemoryLedger extends Context.Service<MemoryLedger, {
  readonly clients: Map<ClientId, boolean>
  readonly bindings: Map<ProviderConnectionId, MemoryRequestBinding>
  readonly grants: Map<GrantId, MemoryGrant>
  /** By what they name. */
  readonly revocations: Map<string, MemoryRevocation>
  /** From the hex SHA-256 of a token to the identity that it names. */
  readonly tokens: Map<string, GrantIdentity>
  readonly operations: Map<OperationId, MemoryRecord>
  /** What a failover would change. */
  readonly cluster: { timeline: number }
  readonly showGrant: (id: GrantId) => Grant | undefined
  readonly grantOf: (identity: GrantIdentity) => Grant | undefined
  readonly ownedBy: (grant: Grant) => ReadonlyArray<MemoryRecord>
}>()("financial-agents-gateway/services/memory/MemoryLedger") {
  static readonly layer: Layer.Layer<MemoryLedger> = Layer.sync(MemoryLedger, () => {
    const clients = new Map<ClientId, boolean>()
    const bindings = new Map<ProviderConnectionId, MemoryRequestBinding>()
    const grants = new Map<GrantId, MemoryGrant>()
    const operations = new Map<OperationId, MemoryRecord>()
    const showGrant = (id: GrantId): Grant | undefined => {
      const grant = grants.get(id)
      const binding = grant && bindings.get(grant.provider_connection_id)
      return grant && binding && {
        ...grant,
        client_active: clients.get(grant.client_id) ?? false,
        provider: binding.provider,
        provider_connected: binding.connected
      }
    }
    return {
      clients,
      bindings,
      grants,
      revocations: new Map(),
      tokens: new Map(),
      operations,
      cluster: { timeline: 1 },
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
}
