/**
 * The state that the in-memory layers of `Grants`, `GrantVerifier`, `OperationStore` and `OperationLedger` share.
 */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
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
import {
  canTransition,
  type HistoryEntry,
  isEvidence,
  isOperationFailure,
  isTerminal,
  type Operation,
  type OperationId,
  type Outcome,
  requiresEvidence,
  submissionUncertain
} from "../../domain/Operation.ts"
import type { ProviderReference } from "../../domain/Submission.ts"
import type { SealedPayload } from "../PayloadCipher.ts"

/** An operation with what its public form omits. */
export interface MemoryRecord {
  readonly operation: Operation
  readonly owner: Pick<
    Grant,
    "grant_id" | "resource_owner" | "subject" | "client_id" | "provider_connection_id" | "provider"
  >
  /** Of the accepting grant, as they were then. */
  readonly scopes: ReadonlyArray<Scope>
  readonly key: string
  readonly digest: string
  readonly history: ReadonlyArray<HistoryEntry>
  /** Null once nothing can be sent any more. */
  readonly payload: SealedPayload | null
  /** When the next one acts, in milliseconds since the epoch; null when the operation is settled. */
  readonly due_at: number | null
  readonly timeline: number
  readonly send_before: DateTime.Utc | null
  readonly reference: ProviderReference | null
  readonly reads: number
  /** A worker found that it could not be sent when it was due, and put it off. */
  readonly waiting: boolean
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

/** How long an operation that was claimed by hand has before it is rescued, in milliseconds. */
const claimedByHand = 5 * 60_000

/** What the triggers of PostgreSQL refuse: a mistake of the caller's. */
const refuseIllegal = ({ operation: { id, state } }: MemoryRecord, to: Outcome, evidence: Schema.Json): void => {
  const isLegal = canTransition(state, to.state) && (!requiresEvidence(state) || isEvidence(evidence))
    && (to.state !== "failed" || isOperationFailure(to.failure))
  if (!isLegal) throw new Error(`operation ${id} cannot move from ${state} to ${to.state} like this`)
}

/**
 * A record one transition further on. `due_at` says who acts next, unless somebody should at once. Throws where
 * PostgreSQL would refuse.
 */
export const moveRecord = (
  record: MemoryRecord,
  to: Outcome,
  evidence: Schema.Json,
  now: DateTime.Utc,
  due_at: number | null = null
): MemoryRecord => {
  refuseIllegal(record, to, evidence)
  const { operation } = record
  const at = DateTime.max(now, operation.updated_at)
  const revision = operation.revision + 1
  const terminal = isTerminal(to.state)
  return {
    ...record,
    operation: {
      ...operation,
      state: to.state,
      terminal,
      submission_uncertain: submissionUncertain(to.state),
      under_review: operation.under_review && !terminal,
      revision,
      updated_at: at,
      completed_at: terminal ? at : null,
      failure: to.state === "failed" ? to.failure : null
    },
    payload: terminal ? null : record.payload,
    due_at: terminal ? null : due_at ?? at.epochMilliseconds + (to.state === "submitting" ? claimedByHand : 0),
    history: [...record.history, { revision, from: operation.state, to: to.state, at, evidence }]
  }
}
