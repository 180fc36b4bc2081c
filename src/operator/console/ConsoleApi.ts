/**
 * The contract between the console's page and its server. The page imports only types of it.
 *
 * The room `operator/console`: the server of the operators' console. Read this file first.
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as Schema from "effect/Schema"
import { type ProblemDetails, problems } from "../../api/Problems.ts"
import { RequestDigest } from "../../domain/Approval.ts"
import { RemainingLimit } from "../../domain/AuthorizationDetails.ts"
import { RecordedFailure } from "../../domain/GatewayFailures.ts"
import { ClientId, GrantId, ProviderName, ResourceOwner } from "../../domain/Grant.ts"
import { OperationId, OperationState } from "../../domain/Operation.ts"
import { OperatorEvidence } from "../../domain/OperatorEvidence.ts"
import { FiguresByCondition, OverviewColumn } from "../../domain/operators/FiguresForm.ts"
import { OperatorDetail, OperatorSummary, QueueName } from "../../domain/operators/OperatorView.ts"
import { Problem } from "../../domain/operators/Problem.ts"
import { ShownTerms, Terms } from "../../domain/Terms.ts"
import { Timestamp } from "../../domain/Timestamp.ts"

/** Header of the anti-forgery token. Each request that changes something must carry the token of its session. */
export const csrfHeader = "x-csrf-token"

/** The session of the browser. */
export const ConsoleSession = Schema.Struct({
  operator: Schema.String,
  csrf_token: Schema.String,
  version: Schema.String,
  expires_at: Timestamp
})
export type ConsoleSession = typeof ConsoleSession.Encoded

/** The figures of `LedgerFigures.nowByCondition`, what is wrong by them, and the flow of the last hours. */
export const Overview = Schema.Struct({
  ...FiguresByCondition.fields,
  /** The most urgent first. */
  problems: Schema.Array(Problem),
  columns: Schema.Array(OverviewColumn),
  /** Oldest first; see `FlowPoint`. */
  flow: Schema.Array(Schema.Struct({
    at: Timestamp,
    provider: ProviderName,
    entered: Schema.Record(Schema.String, Schema.Int),
    standing: Schema.Record(Schema.String, Schema.Int)
  }))
})
export type Overview = typeof Overview.Encoded

export const OperatorPage = Schema.Struct({
  operations: Schema.Array(OperatorSummary),
  next: Schema.NullOr(Schema.String)
})
export type OperatorPage = typeof OperatorPage.Encoded
export type Summary = typeof OperatorSummary.Encoded

export type Detail = typeof OperatorDetail.Encoded

/** What remains of the limits of a grant. Sums only: no amount of a single operation is among them. */
export const GrantLimits = Schema.Struct({ limits: Schema.Array(RemainingLimit) })
export type GrantLimits = typeof GrantLimits.Encoded

const needsReason: ReadonlyArray<string> = ["hold", "release", "cancel"]

/** An action that an operator confirmed. All but a review and a status read need a reason. */
export const ActionRequest = Schema.Struct({
  action: Schema.Literals(["review", "end_review", "hold", "release", "cancel", "read"]),
  /** The revision that the operator saw. The action is refused if the operation has moved on since. */
  revision: Schema.Int,
  reason: Schema.NullOr(Schema.String.check(Schema.isMaxLength(1024)))
}).check(
  Schema.makeFilter(({ action, reason }) =>
    !needsReason.includes(action) || /\S/u.test(reason ?? "") || "needs a reason"
  )
)
export type ActionRequest = typeof ActionRequest.Encoded

const givenReason = Schema.String.check(Schema.isPattern(/\S/u), Schema.isMaxLength(1024))

/** The decision about an operation that waits for an approval. */
export const DecisionRequest = Schema.Union([
  /** With the digest that `terms` answered: the operator saw the amount and the payee. */
  Schema.Struct({ decision: Schema.Literal("approved"), request_digest: RequestDigest, reason: givenReason }),
  Schema.Struct({ decision: Schema.Literal("denied"), reason: givenReason })
])
export type DecisionRequest = typeof DecisionRequest.Encoded

/** What an operator records of an operation that its provider may have: the outcome, and the answer of the provider. */
export const AdvanceRequest = Schema.Struct({
  outcome: Schema.Union([
    Schema.Struct({ state: Schema.Literal("succeeded") }),
    Schema.Struct({ state: Schema.Literal("failed"), failure: RecordedFailure })
  ]),
  evidence: OperatorEvidence,
  /** As in `ActionRequest`. */
  revision: Schema.Int,
  reason: givenReason
})
export type AdvanceRequest = typeof AdvanceRequest.Encoded

/** The operations whose terms an operator wants to see: those of a page, at most. */
const TermsRequest = Schema.Struct({
  operations: Schema.Array(OperationId).check(Schema.isMinLength(1), Schema.isMaxLength(50))
})

export const TermsAnswer = Schema.Struct({
  /** By the id of the operation. Operations without terms are left out. */
  terms: Schema.Record(Schema.String, ShownTerms),
  /** What an approval repeats, of operations that wait for one, and whose terms are readable. */
  digests: Schema.Record(Schema.String, RequestDigest)
})
export type TermsAnswer = typeof TermsAnswer.Encoded

/**
 * Header of the reads that the page makes by itself, such as after an event: any value. They do not prolong the session, which ends an
 * hour after the last request of its operator.
 */
export const refreshHeader = "x-console-refresh"

/** The body of every error. `code` is stable; `detail` is for the operator. */
export type Refusal = typeof ProblemDetails.Encoded

/** The problems of every endpoint. */
const answered = problems(
  "no_session",
  "foreign_origin",
  "wrong_csrf_token",
  "payload_too_large",
  "unsupported_media_type",
  "invalid_request",
  "internal_error",
  "service_unavailable"
)

/** Each failure of an endpoint becomes a complete problem, as behind the gate of the public listener. */
export class ConsoleAnswers extends HttpApiMiddleware.Service<ConsoleAnswers>()(
  "financial-agents-gateway/operator/console/ConsoleAnswers",
  { error: answered }
) {}

const found = problems("operation_not_found")

/** `moved_on`: the revision is not the one that the operator saw. Otherwise the ledger refuses the action. */
const acted = problems(
  "operation_not_found",
  "moved_on",
  "already_settled",
  "illegal_transition",
  "still_held",
  "unknown_result",
  "done_but_unread"
)

/** The codes of an action that was refused: nothing changed. With 500 and 503 it may have been done. */
export type RefusalCode = Exclude<
  (typeof answered | typeof acted)[number]["Type"],
  { readonly status: 500 | 503 }
>["code"]

const pages = problems("invalid_page_token")

const PageQuery = {
  order: Schema.optionalKey(Schema.Literals(["oldest", "newest"])),
  after: Schema.optionalKey(Schema.String)
}

class ConsoleGroup extends HttpApiGroup.make("console").add(
  HttpApiEndpoint.get("session", "/session", { success: ConsoleSession }),
  HttpApiEndpoint.delete("logout", "/session", { success: HttpApiSchema.NoContent }),
  HttpApiEndpoint.get("overview", "/overview", {
    query: { hours: Schema.optionalKey(Schema.Literals(["1", "3", "24", "168"])) },
    success: Overview
  }),
  /** All filters must match. Without `queue`, operations in any state. */
  HttpApiEndpoint.get("list", "/operations", {
    query: {
      queue: Schema.optionalKey(QueueName),
      /** Any of them, if it is repeated. */
      state: Schema.optionalKey(Schema.Union([OperationState, Schema.Array(OperationState)])),
      provider: Schema.optionalKey(ProviderName),
      client_id: Schema.optionalKey(ClientId),
      resource_owner: Schema.optionalKey(ResourceOwner),
      failure_code: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(64))),
      claimed_by: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(255))),
      ...PageQuery
    },
    success: OperatorPage,
    error: pages
  }),
  /** By id, idempotency key or provider reference. */
  HttpApiEndpoint.get("find", "/find", {
    query: { text: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(1024)) },
    success: Schema.Struct({ operations: Schema.Array(OperatorSummary) })
  }),
  HttpApiEndpoint.get("detail", "/operations/:id", {
    params: { id: OperationId },
    success: OperatorDetail,
    error: found
  }),
  HttpApiEndpoint.get("limits", "/grants/:id/limits", {
    params: { id: GrantId },
    success: GrantLimits,
    error: problems("grant_not_found")
  }),
  HttpApiEndpoint.post("act", "/operations/:id/actions", {
    params: { id: OperationId },
    payload: ActionRequest,
    success: OperatorDetail,
    error: acted
  }),
  HttpApiEndpoint.post("decide", "/operations/:id/decision", {
    params: { id: OperationId },
    payload: DecisionRequest,
    success: OperatorDetail,
    error: acted
  }),
  HttpApiEndpoint.post("advance", "/operations/:id/advance", {
    params: { id: OperationId },
    payload: AdvanceRequest,
    success: OperatorDetail,
    error: acted
  }),
  /** The latest operations of a payee, 50 at most. It tells their terms, so it is recorded, and a POST. */
  HttpApiEndpoint.post("payee", "/payee", {
    payload: Schema.Struct({ payee: Terms.fields.payee }),
    success: OperatorPage,
    error: pages
  }),
  /** Unmasked. It is recorded, so it is a POST. */
  HttpApiEndpoint.post("terms", "/terms", { payload: TermsRequest, success: TermsAnswer })
).middleware(ConsoleAnswers) {}

/**
 * The API. Beside it, `GET /console/api/events` is a stream of server-sent events (`EventSource`): `changes` with
 * `ConsoleChanges` when operations changed, and a comment every 15 seconds. The first event of each stream has null: what the page read
 * before it may be stale.
 */
export class ConsoleApi extends HttpApi.make("console").add(ConsoleGroup).prefix("/console/api") {}

/** Data of the event `changes`. Null: too many changed to name them, or some may have been missed, so read anew what is shown. */
export interface ConsoleChanges {
  readonly operations: ReadonlyArray<{ readonly id: string; readonly state: string; readonly revision: number }> | null
}
