/**
 * The state that the in-memory layers of `Grants`, `GrantVerifier`, `OperationStore` and `OperationLedger` share.
 */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import type {
  ClientId,
  Grant,
  GrantId,
  GrantIdentity,
  Provider,
  ProviderBindingId,
  ResourceOwner
} from "../domain/Grant.ts"
import type { HistoryEntry, Operation, OperationId } from "../domain/Operation.ts"

/** An operation with what its public form omits. */
export interface MemoryRecord {
  readonly operation: Operation
  readonly owner: Pick<Grant, "resource_owner" | "subject" | "client_id">
  readonly key: string
  readonly digest: string
  readonly history: ReadonlyArray<HistoryEntry>
}

export interface MemoryBinding {
  readonly id: ProviderBindingId
  readonly resource_owner: ResourceOwner
  readonly provider: Provider
  readonly connected: boolean
}

/** What `Grants` keeps of a grant; the standing of its client and its binding is looked up with each use. */
export type MemoryGrant = Omit<Grant, "client_active" | "provider" | "provider_connected">

/**
 * A ledger that lives and dies with the process: for tests, demonstrations and examples. It keeps every rule that the
 * PostgreSQL layers keep (one conformance suite runs against both), except durability.
 */
export class MemoryLedger extends Context.Service<MemoryLedger, {
  readonly clients: Map<ClientId, boolean>
  readonly bindings: Map<ProviderBindingId, MemoryBinding>
  readonly grants: Map<GrantId, MemoryGrant>
  /** From the hex SHA-256 of a token to the identity that it names. */
  readonly tokens: Map<string, GrantIdentity>
  readonly operations: Map<OperationId, MemoryRecord>
  readonly showGrant: (id: GrantId) => Grant | undefined
  readonly grantOf: (identity: GrantIdentity) => Grant | undefined
  readonly ownedBy: (grant: Grant) => ReadonlyArray<MemoryRecord>
}>()("financial-agents-gateway/services/MemoryLedger") {
  static readonly layer: Layer.Layer<MemoryLedger> = Layer.sync(MemoryLedger, () => {
    const clients = new Map<ClientId, boolean>()
    const bindings = new Map<ProviderBindingId, MemoryBinding>()
    const grants = new Map<GrantId, MemoryGrant>()
    const operations = new Map<OperationId, MemoryRecord>()
    const showGrant = (id: GrantId): Grant | undefined => {
      const grant = grants.get(id)
      const binding = grant && bindings.get(grant.provider_binding_id)
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
      tokens: new Map(),
      operations,
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
