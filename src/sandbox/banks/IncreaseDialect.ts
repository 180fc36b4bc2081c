/**
 * Increase as a dialect of the sandbox: ACH transfers and account transfers, with one object for each key, for ever. An ACH transfer is
 * `pending_submission`, then `submitted`, and may be `returned` later. A transfer names its outcome in `statement_descriptor` or
 * `description`: see `instructionIn`.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { formatTimestamp } from "../../domain/Timestamp.ts"
import {
  type Answer,
  answered,
  type BankEvent,
  type Demand,
  type Dialect,
  jsonAnswer,
  type RequestHead,
  type Saying
} from "../Dialect.ts"
import type { SandboxFailure, SubmissionKey } from "../Protocol.ts"
import type { KnownSubmission } from "../SandboxOutcome.ts"
import { describeIssues, instructionIn } from "../Wire.ts"

const text = (longest: number) => Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(longest))
const optional = (longest: number) => Schema.optionalKey(text(longest))

const AchRequest = Schema.Struct({
  account_id: text(200),
  amount: Schema.Int,
  external_account_id: optional(200),
  routing_number: optional(9),
  account_number: optional(17),
  funding: optional(20),
  individual_name: optional(22),
  company_name: optional(16),
  company_entry_description: optional(10),
  standard_entry_class_code: optional(40),
  statement_descriptor: text(200),
  require_approval: Schema.optionalKey(Schema.Boolean)
})

const AccountRequest = Schema.Struct({
  account_id: text(200),
  amount: Schema.Int.check(Schema.isGreaterThan(0)),
  destination_account_id: text(200),
  description: text(200),
  require_approval: Schema.optionalKey(Schema.Boolean)
})

/** What the bank keeps of a request. */
const Echo = Schema.Union([
  Schema.Struct({ type: Schema.Literal("ach_transfer"), ...AchRequest.fields }),
  Schema.Struct({ type: Schema.Literal("account_transfer"), ...AccountRequest.fields })
])
type Echo = typeof Echo.Type

const decodeBody = Schema.decodeResult(Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json)))
const decodeEcho = Schema.decodeUnknownResult(Echo)

const typeOf = ({ path }: RequestHead): Echo["type"] =>
  path.startsWith("/ach_transfers") ? "ach_transfer" : "account_transfer"

const isEcho = Schema.is(Echo)

/** What the bank kept. Of an unknown transfer, which only the fault `foreign_answer` shows, anything. */
const echoOf = ({ echo }: KnownSubmission, type: Echo["type"]): Echo => {
  if (isEcho(echo)) return echo
  const some = { account_id: "account_other", amount: 100 }
  return type === "ach_transfer"
    ? { type, ...some, external_account_id: "external_account_other", statement_descriptor: "Other" }
    : { type, ...some, destination_account_id: "account_another", description: "Other" }
}

/** References have the form of the bank's ids: `ach_transfer_` and so on. */
const idOf = (known: KnownSubmission, { type }: Pick<Echo, "type">): string =>
  `${type}_${known.status.reference.slice("sbx_".length)}`

/** Reasons of returns by the failures of the sandbox. Other codes are reasons of the bank. */
const returnReasons: Readonly<Record<string, string>> = { insufficient_funds: "insufficient_fund" }

type AchStatus = "pending_approval" | "pending_submission" | "submitted" | "returned" | "rejected" | "canceled"

/** The sandbox's own `limit_exceeded` is a refusal by the bank's review. */
const failedStatus = (code: string): AchStatus => {
  if (code === "canceled") return "canceled"
  return code === "rejected" || code === "limit_exceeded" ? "rejected" : "returned"
}

const achStatus = ({ returnedAt, status }: KnownSubmission, requiresApproval: boolean): AchStatus => {
  if (status.status === "pending") return requiresApproval ? "pending_approval" : "pending_submission"
  if (status.status === "failed") return failedStatus(status.code)
  return returnedAt === null ? "submitted" : "returned"
}

const cancellationOf = (canceledAt: number | null) =>
  canceledAt === null ? null : { canceled_at: formatTimestamp(canceledAt), canceled_by: null }

const achTransfer = (known: KnownSubmission, given: Extract<Echo, { readonly type: "ach_transfer" }>) => {
  const { acceptedAt, settledAt } = known
  const { require_approval = false, ...echo } = given
  const status = achStatus(known, require_approval)
  const reason = known.status.status === "failed" ? known.status.code : "no_account"
  const at = known.returnedAt ?? settledAt ?? acceptedAt
  return {
    account_number: "987654321",
    routing_number: "101050001",
    external_account_id: null,
    funding: "checking",
    individual_name: null,
    company_name: null,
    company_entry_description: null,
    standard_entry_class_code: "corporate_credit_or_debit",
    ...echo,
    id: idOf(known, echo),
    idempotency_key: known.status.idempotency_key,
    addendum: null,
    approval: null,
    cancellation: cancellationOf(status === "canceled" ? settledAt : null),
    company_descriptive_date: null,
    company_discretionary_data: null,
    created_at: formatTimestamp(acceptedAt),
    currency: "USD",
    effective_date: null,
    individual_id: null,
    network: "ach",
    notifications_of_change: [],
    return: status === "returned"
      ? {
        created_at: formatTimestamp(at),
        return_reason_code: returnReasons[reason] ?? reason,
        transfer_id: idOf(known, echo),
        transaction_id: `transaction_return_${known.status.reference}`
      }
      : null,
    status,
    submission: status === "submitted" || status === "returned"
      ? { submitted_at: formatTimestamp(settledAt ?? acceptedAt), trace_number: "058349238292834" }
      : null,
    transaction_id: `transaction_${known.status.reference}`
  }
}

const accountTransfer = (known: KnownSubmission, given: Extract<Echo, { readonly type: "account_transfer" }>) => {
  const { require_approval: _, ...echo } = given
  const { acceptedAt, settledAt, status: { idempotency_key, reference, status } } = known
  const isComplete = status === "succeeded"
  return {
    ...echo,
    id: idOf(known, echo),
    idempotency_key,
    approval: null,
    cancellation: cancellationOf(status === "failed" ? settledAt : null),
    created_at: formatTimestamp(acceptedAt),
    currency: "USD",
    destination_transaction_id: isComplete ? `transaction_destination_${reference}` : null,
    network: "account",
    status: isComplete ? "complete" : status === "failed" ? "canceled" : "pending_approval",
    transaction_id: isComplete ? `transaction_${reference}` : null
  }
}

const transferOf = (known: KnownSubmission, head: RequestHead) => {
  const echo = echoOf(known, typeOf(head))
  return echo.type === "ach_transfer" ? achTransfer(known, echo) : accountTransfer(known, echo)
}

/** The title and the detail of a real error say more. Adapters must not depend on them. */
const problem = (
  status: number,
  type: string,
  more: object = {},
  headers: Readonly<Record<string, string>> = {}
): Answer => jsonAnswer(status, { type, title: "The simulator refuses this.", detail: null, status, ...more }, headers)

const refusal = ({ code }: SandboxFailure): Answer =>
  code === "account_closed" || code === "account_unknown"
    ? problem(404, "object_not_found_error")
    : problem(409, "invalid_operation_error")

const isList = ({ path }: RequestHead): boolean => path.split("/").length === 2

const listOf = (transfers: ReadonlyArray<object>): Answer => jsonAnswer(200, { data: transfers, next_cursor: null })

const notFound = (head: RequestHead): Answer => isList(head) ? listOf([]) : problem(404, "object_not_found_error")

const write = (saying: Saying, head: RequestHead): Answer => {
  switch (saying._tag) {
    case "Taken": {
      const transfer = transferOf(saying.known, head)
      if (!saying.isSame) return problem(409, "idempotency_key_already_used_error", { resource_id: transfer.id })
      return jsonAnswer(200, transfer, saying.isFirst ? {} : { "idempotent-replayed": "true" })
    }
    case "Status": {
      const transfer = transferOf(saying.known, head)
      // A refused request makes no transfer. A key is unique in the bank, and a list shows transfers of its own type alone.
      if (saying.known.settlement.outcome === "rejected" || transfer.type !== typeOf(head)) return notFound(head)
      return isList(head) ? listOf([transfer]) : jsonAnswer(200, transfer)
    }
    case "Refused":
      return refusal(saying.failure)
    case "NotFound":
      return notFound(head)
    case "DuplicateKey":
    case "TooLate":
      return problem(409, "idempotency_conflict_error")
    case "Invalid":
      return problem(400, "invalid_parameters_error", { detail: saying.reason, errors: [] })
    case "BodyTooLarge":
      return problem(400, "malformed_request_error")
    case "Unauthorized":
      return problem(401, "invalid_api_key_error")
    case "TooManyRequests": {
      const { retryAfterSeconds: retry_after } = saying
      return problem(429, "rate_limited_error", { retry_after }, { "retry-after": String(retry_after) })
    }
  }
}

const isKey = (key: unknown): key is SubmissionKey => typeof key === "string" && /^[\x21-\x7e]{1,200}$/u.test(key)

/** What a person or a client makes of a transfer that is `pending_approval`. */
const verdicts: Readonly<Record<string, "Cancel" | "Approve" | undefined>> = { cancel: "Cancel", approve: "Approve" }

/** Answers only what the adapter needs: a transfer with a key, its status by key or by id, and its cancellation or approval. */
const demandOf = (head: RequestHead): Demand | null => {
  const { headers, method, path, query } = head
  const [, collection, id, ...more] = path.split("/")
  if (collection !== "ach_transfers" && collection !== "account_transfers") return null
  if (!/^Bearer \S+$/u.test(String(headers["authorization"]))) return answered(problem(401, "invalid_api_key_error"))
  const isRead = method === "GET"
  const reference = (id ?? "").replace(/^(?:ach|account)_transfer_/u, "sbx_")
  const verdict = more.length === 1 && method === "POST" ? verdicts[more[0]!] : undefined
  if (verdict !== undefined) return { _tag: verdict, reference }
  const key = isRead ? query.get("idempotency_key") : headers["idempotency-key"]
  if (more.length > 0 || !isRead && (method !== "POST" || id !== undefined)) {
    return answered(problem(404, "api_method_not_found_error"))
  }
  if (id !== undefined) return { _tag: "ReadByReference", reference }
  if (!isKey(key)) return answered(problem(400, "invalid_parameters_error", { errors: [] }))
  return { _tag: isRead ? "ReadByKey" : "Submit", key }
}

const webhook = ({ at, id, kind, known }: BankEvent) => {
  const echo = echoOf(known, "ach_transfer")
  return {
    id: `event_${id}`,
    created_at: formatTimestamp(at),
    category: `${echo.type}.${kind === "accepted" ? "created" : "updated"}`,
    associated_object_type: echo.type,
    associated_object_id: idOf(known, echo),
    type: "event"
  }
}

/** Increase, by its documents. */
export const increaseDialect: Dialect = {
  demandOf,
  submissionOf: (head, body) =>
    Result.gen(function*() {
      const type = typeOf(head)
      const echo = yield* Result.mapError(
        Result.flatMap(decodeBody(body), (request) => decodeEcho({ ...request, type })),
        describeIssues
      )
      const instruction = yield* instructionIn(
        echo.type === "ach_transfer" ? echo.statement_descriptor : echo.description
      )
      // A transfer that waits for an approval pays nothing. Without one it waits for ever.
      return echo.require_approval === true
        ? { type, instruction: { outcome: "pending" }, sendBefore: Infinity, isFence: true, echo }
        : { type, instruction, sendBefore: Infinity, echo }
    }),
  isOpen: ({ echo, status }) => status.status === "pending" && isEcho(echo) && echo.require_approval === true,
  write,
  webhook
}
