/**
 * The state that the in-memory layers of `Grants`, `GrantVerifier`, `OperationStore` and `OperationLedger` share.
 * The room `services/memory` has these layers, each for one of `sql`. Read this file first.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import type { ClientId, Grant, GrantId, GrantIdentity, ProviderConnectionId, ProviderName } from "../../domain/Grant.ts"
import type { LimitState } from "../rules/providerPermits.ts"
import {
  type MemoryGrant,
  type MemoryProviderConnection,
  type MemoryRecord,
  MemoryRecords,
  type MemoryRevocation
} from "./MemoryRecords.ts"

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
  readonly operations: MemoryRecords
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
      const operations = new MemoryRecords()
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
