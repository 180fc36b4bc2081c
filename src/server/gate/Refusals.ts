/** Problems for errors of the services. */
import * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { ProblemOf, refusedByLimits, refusedGrants } from "../../api/Problems.ts"
import type { Limit, LimitRefusal } from "../../domain/AuthorizationDetails.ts"
import type { GrantRefusal } from "../../domain/Grant.ts"
import type { MalformedOperation } from "../../domain/Operation.ts"
import { storeFailure, type StoreUnavailable } from "../../services/StoreUnavailable.ts"
import type { ProblemOptions, Problems } from "./ProblemResponses.ts"

/** The problem for a grant that may not be used. Its gate declares the first code. */
type GrantProblem = ProblemOf<"invalid_token" | (typeof refusedGrants)[number]>

/** Fails with the problem for a grant that may not be used. */
export const refuseGrant = (
  problems: Problems["Service"],
  error: GrantRefusal
): Effect.Effect<never, GrantProblem> => {
  switch (error._tag) {
    case "GrantUnknown":
      return problems.fail("invalid_token")
    case "GrantRevoked":
      return problems.fail("grant_revoked", { detail: `The grant is ${error.reason}.` })
    case "ClientInactive":
      return problems.fail("client_inactive")
    case "InsufficientScope":
      return problems.fail("insufficient_scope", {
        detail: `The grant lacks the scope ${error.required}.`,
        scope: error.required
      })
    case "ProviderDisconnected":
      return problems.fail("provider_disconnected")
  }
}

/** A limit in words, such as `500.00 EUR per day (Europe/Berlin)`. */
const limitText = (limit: Limit): string => {
  const amount = `${limit.amount} ${limit.currency}`
  if (!("per" in limit)) return `${amount} for one operation`
  if (limit.per === "grant") return `${amount} for the life of the grant`
  return `${amount} per ${limit.per} (${limit.rolling === true ? "rolling" : limit.time_zone ?? "UTC"})`
}

/** Fails with the problem for an operation that the limits of its grant refuse. `ProblemDetails` is closed, so figures are `fields`. */
export const refuseByLimits = (
  problems: Problems["Service"],
  error: LimitRefusal
): Effect.Effect<never, ProblemOf<(typeof refusedByLimits)[number]>> => {
  switch (error._tag) {
    case "LimitExceeded": {
      const { limit, remaining, resets_at } = error
      const left = `${remaining} ${limit.currency}`
      return problems.fail("limit_exceeded", {
        detail: `The grant permits ${limitText(limit)}, and ${left} remain.`,
        fields: [
          { path: "limit", message: limitText(limit) },
          { path: "remaining", message: left },
          // A limit that is none of the calendar never resets at an instant.
          ...resets_at === null ? [] : [{ path: "resets_at", message: DateTime.formatIso(resets_at) }]
        ]
      })
    }
    case "OperationNotCovered":
      return problems.fail("operation_not_covered", {
        detail: error.missing === "currency"
          ? "The grant does not permit this currency."
          : "The grant does not permit operations of this type."
      })
    case "PayeeNotAllowed":
      return problems.fail("payee_not_allowed")
    case "TermsRequired":
      return problems.fail("terms_required")
  }
}

/** Fails because the query has a token: it may have leaked through logs, histories and referrers (RFC 6750 §5.3). */
export const refuseTokenInQuery = (
  problems: Problems["Service"]
): Effect.Effect<never, ProblemOf<"malformed_request">> =>
  problems.fail("malformed_request", {
    detail: "An access token belongs in the Authorization header, never in a URL: treat this one as leaked."
  })

/** Fails with 503 because the store did not answer. Only the log has the cause. */
export const refuseForNow = (
  problems: Problems["Service"],
  error: StoreUnavailable,
  options?: ProblemOptions
): Effect.Effect<never, ProblemOf<"service_unavailable">> =>
  problems.fail("service_unavailable", { ...options, cause: storeFailure(error) ?? "the store did not answer" })

/** Fails with 500 because the response breaks the contract. The cause is only logged. */
export const withhold = (
  problems: Problems["Service"],
  cause: unknown
): Effect.Effect<never, ProblemOf<"response_contract_failed">> =>
  Effect.andThen(
    Effect.logError("Response withheld: it breaks the contract", Cause.fail(cause)),
    problems.fail("response_contract_failed", { cause: "the response breaks the contract" })
  )

/** The problem for a read that the services refused, or could not answer. */
export type ReadProblem = GrantProblem | ProblemOf<"response_contract_failed" | "service_unavailable">

/** Fails with the problem for a read that the services refused, or could not answer. */
export const refuseRead = (
  problems: Problems["Service"],
  error: GrantRefusal | MalformedOperation | StoreUnavailable
): Effect.Effect<never, ReadProblem> => {
  switch (error._tag) {
    case "StoreUnavailable":
      return refuseForNow(problems, error)
    case "MalformedOperation":
      return withhold(problems, error)
    default:
      return refuseGrant(problems, error)
  }
}
