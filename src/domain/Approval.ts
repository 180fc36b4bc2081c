/**
 * Approvals: an operation that waits for a person, and the one decision about it. An operation has at most one approval, so its id names it.
 */
import * as Schema from "effect/Schema"
import { ClientId, ResourceOwner } from "./Grant.ts"
import { OperationId, OperationType } from "./Operation.ts"
import { ShownTerms } from "./Terms.ts"
import { Timestamp } from "./Timestamp.ts"

/** `expired`: no decision came in time. `ended`: the operation ended without a decision, such as by a cancellation. */
export const ApprovalState = Schema.Literals(["pending", "approved", "denied", "expired", "ended"])
export type ApprovalState = typeof ApprovalState.Type

/**
 * SHA-256 of the operation, its request (type and payload) and its terms as they are stored, in hexadecimal. A decision repeats that of
 * the operation whose terms the person saw.
 */
export const RequestDigest = Schema.String.check(
  Schema.isPattern(/^[0-9a-f]{64}$/u, { expected: "64 hexadecimal digits" })
)

/** Whether, when and by whom it was decided. */
export const ApprovalStatus = Schema.Struct({
  state: ApprovalState,
  created_at: Timestamp,
  /** Without a decision the operation is cancelled then. */
  expires_at: Timestamp,
  decided_at: Schema.NullOr(Timestamp),
  decided_as: Schema.NullOr(Schema.Literals(["owner", "operator"])),
  /** The resource owner, or the name of the operator. */
  decider: Schema.NullOr(Schema.String),
  reason: Schema.NullOr(Schema.String)
})
export type ApprovalStatus = typeof ApprovalStatus.Type

/** An operation that waits for a decision, or has waited. */
export const Approval = Schema.Struct({
  operation_id: OperationId,
  type: OperationType,
  client_id: ClientId,
  resource_owner: ResourceOwner,
  request_digest: RequestDigest,
  /** What the operation moves. Null: its end has erased them. */
  terms: Schema.NullOr(ShownTerms),
  ...ApprovalStatus.fields
})
export type Approval = typeof Approval.Type

/** Who decides. The application vouches for it: the session of its page, or the name of its operator. */
export type Decider =
  | { readonly as: "owner"; readonly name: ResourceOwner }
  | { readonly as: "operator"; readonly name: string; readonly via: "console" | "command" }

/** What a person decides about an operation. */
export interface Decision {
  readonly operation_id: OperationId
  /** Of the operation whose terms the person saw. */
  readonly request_digest: string
  readonly decision: "approved" | "denied"
  readonly decider: Decider
  /** Up to 1,024 characters. Null: none given. */
  readonly reason: string | null
}

const refusals = {
  not_asked: "waits for no approval, and never did",
  other_request: "is another request than the one that the person saw: read it again",
  decided: "has its decision already",
  late: "waited for too long: its time for a decision has ended",
  ended: "has ended without a decision",
  requesting_client: "is decided by a person, never by the client that requested it",
  other_owner: "belongs to another resource owner",
  uncertain: "may have been sent before the ledger moved or failed over: operators first settle or release it"
} as const

/** The decision changed nothing. */
export class DecisionRefused extends Schema.TaggedError<DecisionRefused>()("DecisionRefused", {
  id: OperationId,
  reason: Schema.Literals(Object.keys(refusals) as ReadonlyArray<keyof typeof refusals>)
}) {
  override get message() {
    return `operation ${this.id} ${refusals[this.reason]}`
  }
}

/** Which approvals to list. */
export interface PendingApprovals {
  /** Only those of this owner. Absent: all. */
  readonly resource_owner?: ResourceOwner
  /** The last approval of the list before this one, which goes on behind it. Absent: from the front. */
  readonly after?: Pick<Approval, "expires_at" | "operation_id">
  /** 1 to 1,000. Default: 100. */
  readonly limit?: number
}

/** Which resource owners to list. */
export interface PendingOwners {
  /** The last owner of the list before this one, which goes on behind it. Absent: from the front. */
  readonly after?: ResourceOwner
  /** 1 to 1,000. Default: 100. */
  readonly limit?: number
}

/** @internal */
export const limitOf = ({ limit = 100 }: Pick<PendingApprovals, "limit">) => Math.min(1000, Math.max(1, limit))
