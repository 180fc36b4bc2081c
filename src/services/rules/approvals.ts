/** Approvals: which operations wait for a person, and which decisions count. `migrations/0035_approvals.sql` has the same rules. */
import * as BigDecimal from "effect/BigDecimal"
import * as Digest from "effect/crypto/Digest"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import * as Result from "effect/Result"
import { type Approval, type Decision, DecisionRefused } from "../../domain/Approval.ts"
import type { FinancialOperations } from "../../domain/AuthorizationDetails.ts"
import type { FinancialRequest } from "../../domain/Idempotency.ts"
import type { Terms } from "../../domain/Terms.ts"
import type { LimitSources } from "./limits.ts"
import type { PreparedRequest } from "./prepareAcceptance.ts"

/** How long an operation waits for a decision, in milliseconds. */
export const approvalTime = 86_400_000

const encoder = new TextEncoder()

/** What a decision is about. `approval_digest` of the database computes the same. */
export const approvalDigest = ({ digest, id, terms }: Pick<PreparedRequest, "id" | "digest" | "terms">) =>
  Effect.orDie(Digest.Digest.use((service) =>
    service.digest(
      Digest.sha256,
      Uint8Array.of(
        ...Result.getOrThrow(Hex.decode(id.replaceAll("-", "") + digest)),
        ...encoder.encode(terms?.key_id ?? ""),
        0,
        ...terms?.payload ?? []
      )
    )
  )).pipe(Effect.map(Hex.encode))

/**
 * Whether a request that the limits permit waits for an approval. `isKnown`: the payee received money under the grant, and did not
 * return it.
 */
export const needsApproval = (
  { terms, type }: FinancialRequest,
  sources: LimitSources,
  isKnown: (payee: string) => boolean
): boolean => {
  const isAbove = (above: FinancialOperations["approval"] & {}, { amount, currency }: Terms) => {
    const line = above.above?.find((line) => line.currency === currency)
    return above.above !== undefined && (line === undefined
      || BigDecimal.isGreaterThan(BigDecimal.fromStringUnsafe(amount), BigDecimal.fromStringUnsafe(line.amount)))
  }
  return terms !== undefined &&
    sources.some((details) =>
      details?.some(({ approval, operation_types }) =>
        approval !== undefined && (operation_types?.includes(type) ?? true)
        && (isAbove(approval, terms) || approval.new_payees === true && !isKnown(terms.payee))
      )
    )
}

type ApprovalFacts =
  & Pick<Approval, "state" | "client_id" | "resource_owner" | "request_digest" | "expires_at">
  & {
    readonly now: DateTime.Utc
    /** The operation was provably never sent. */
    readonly is_unsent: boolean
  }

/** Why a decision is refused, or null. */
export const findDecisionRefusal = (
  { decider, operation_id: id, request_digest }: Decision,
  facts: ApprovalFacts | undefined
): DecisionRefused | null => {
  const refused = (reason: DecisionRefused["reason"]) => new DecisionRefused({ id, reason })
  if (facts === undefined) return refused("not_asked")
  if (decider.name === facts.client_id) return refused("requesting_client")
  if (decider.as === "owner" && decider.name !== facts.resource_owner) return refused("other_owner")
  if (request_digest !== facts.request_digest) return refused("other_request")
  if (facts.state === "ended") return refused("ended")
  if (facts.state === "expired") return refused("late")
  if (facts.state !== "pending") return refused("decided")
  if (DateTime.isGreaterThanOrEqualTo(facts.now, facts.expires_at)) return refused("late")
  return facts.is_unsent ? null : refused("uncertain")
}

/** What the history says of a decision, at the end of a denied operation and at the claim of an approved one. */
export const approvalEvidence = (
  { decided_as, decided_at, decider, reason, state }: Pick<
    Approval,
    "state" | "decided_as" | "decided_at" | "decider" | "reason"
  >
) => ({
  by: "approval",
  decision: state,
  ...decided_as === null ? {} : { decided_as },
  ...decider === null ? {} : { decider },
  ...reason === null ? {} : { reason },
  ...decided_at === null ? {} : { decided_at: DateTime.formatIso(decided_at) }
})
