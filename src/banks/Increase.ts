/**
 * The adapter for Increase (United States): ACH credits to accounts at other banks, and transfers between own accounts. `docs/banks.md` has
 * the table of states, and what happens after a lost answer.
 *
 * The operation's id is the `Idempotency-Key`: the bank makes one object for each key, for ever, and lists it by its key. So a lost
 * answer is settled by that list, and a lost request by a fence. Names of members are those of the bank's documents; amounts are decimal
 * text in payloads and cents on the wire.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { CommonFailureCode } from "../domain/GatewayFailures.ts"
import { decimalText, isPlain, minorUnits, textLike, textUpTo } from "../domain/PayloadText.ts"
import type { ProviderOperation } from "../domain/Submission.ts"
import type { Terms } from "../domain/Terms.ts"
import * as HttpProvider from "../submission/http/HttpProvider.ts"
import { type ProviderAdapter, ProviderReference } from "../submission/providers/ProviderAdapter.ts"

/** US dollars. The amount field of ACH has ten digits of cents. */
const Dollars = decimalText({ whole: 8, fraction: 2, expected: "an amount in dollars above zero, such as \"12.50\"" })

/** The bank takes no other, and no member for it: a client that means euros is refused. */
const currency = Schema.Literal("USD")

/** The payload of an `ach_transfer`: a credit to an account at another bank. */
export const AchTransfer = Schema.Struct({
  /** The own account that pays. */
  account_id: textUpTo(200),
  amount: Dollars,
  currency,
  /** The payee: an external account that the bank knows, or else routing and account number. */
  external_account_id: Schema.optionalKey(textLike(/^\S{1,200}$/u, "an id without blanks").check(isPlain)),
  routing_number: Schema.optionalKey(textLike(/^[0-9]{9}$/u, "a routing number of nine digits")),
  account_number: Schema.optionalKey(textLike(/^\S{1,17}$/u, "an account number without blanks").check(isPlain)),
  funding: Schema.optionalKey(Schema.Literals(["checking", "savings"])),
  individual_name: Schema.optionalKey(textUpTo(22)),
  company_name: Schema.optionalKey(textUpTo(16)),
  company_entry_description: Schema.optionalKey(textUpTo(10)),
  standard_entry_class_code: Schema.optionalKey(
    Schema.Literals(["corporate_credit_or_debit", "prearranged_payments_and_deposit", "internet_initiated"])
  ),
  statement_descriptor: textUpTo(200)
}).check(
  Schema.makeFilter(
    ({ account_number, external_account_id, funding, routing_number }) =>
      external_account_id === undefined
        ? account_number !== undefined && routing_number !== undefined
        : account_number === undefined && routing_number === undefined && funding === undefined,
    { expected: "either external_account_id, or account_number and routing_number with an optional funding" }
  )
)

/** The payload of an `account_transfer`: between two own accounts. */
export const AccountTransfer = Schema.Struct({
  account_id: textUpTo(200),
  amount: Dollars,
  currency,
  destination_account_id: textUpTo(200).check(isPlain),
  description: textUpTo(200)
})

/** The terms of an `ach_transfer`. The payee is an id, or `funding` and numbers, all without blanks. Operators see the end: the account. */
export const achTransferTerms = (
  { account_number, amount, currency, external_account_id, funding, routing_number }: typeof AchTransfer.Type
): Terms => ({
  amount,
  currency,
  payee: external_account_id
    ?? [funding, routing_number, account_number].filter((part) => part !== undefined).join(" ")
})

/** The terms of an `account_transfer`, for its endpoint. */
export const accountTransferTerms = (
  { amount, currency, destination_account_id: payee }: typeof AccountTransfer.Type
): Terms => ({ amount, currency, payee })

/** What the bank can carry out, by type of operation. The bank's paths are these types in the plural. */
export const payloads = { ach_transfer: AchTransfer, account_transfer: AccountTransfer }

type Payload = (typeof payloads)[keyof typeof payloads]["Type"]

/** The request: the payload without its currency, in cents. `more` is of a fence alone. */
const requestOf = (type: string, { currency: _currency, ...transfer }: Payload, more: object = {}) => ({
  path: `/${type}s`,
  body: { ...transfer, amount: minorUnits(transfer.amount, 2), ...more }
})

/** What clients read of a failure, by code. */
const failures = {
  not_possible: { message: "The bank cannot carry out the transfer, for example because the balance is too low." },
  not_permitted: { message: "The owner of the operation may not pay from this account." },
  payee_refused: { message: "The payee refused the transfer." },
  transfer_canceled: { message: "The transfer was canceled before the bank carried it out." },
  transfer_rejected: { message: "The bank declined the transfer." },
  transfer_returned: { message: "The bank of the payee returned the transfer." }
}

type FailureCode = keyof typeof failures | CommonFailureCode

/** Reasons of returns with a code of their own. The bank documents more, and adds some. */
const returnCodes: Readonly<Record<string, FailureCode>> = {
  account_closed: "account_closed",
  credit_entry_refused_by_receiver: "payee_refused",
  invalid_account_number_structure: "account_unknown",
  no_account: "account_unknown"
}

/**
 * Each documented state of a transfer. Those with `submitted` wait: for an approval, the bank, or the next file to the Federal Reserve.
 * ACH knows no acknowledgement of the payee's bank. So `submitted` of an `ach_transfer` is final: the order has left the bank. A return
 * that comes later is a payment of its own, back to the payer: the promise `reversibleFor` has it recorded for operators.
 */
const states = {
  pending_approval: "submitted",
  pending_transfer_session_confirmation: "submitted",
  pending_reviewing: "submitted",
  pending_submission: "submitted",
  requires_attention: "submitted",
  submitted: "succeeded",
  complete: "succeeded",
  canceled: "failed",
  rejected: "failed",
  returned: "failed"
} as const

/** The members of a transfer that count. The evidence has these alone: no account number, no name, no free text. */
const Transfer = Schema.Struct({
  id: ProviderReference,
  idempotency_key: Schema.String,
  type: Schema.Literals(["ach_transfer", "account_transfer"]),
  status: Schema.Literals(Object.keys(states) as ReadonlyArray<keyof typeof states>),
  amount: Schema.Int,
  currency: Schema.String,
  created_at: Schema.String,
  transaction_id: Schema.NullOr(Schema.String),
  submission: Schema.optionalKey(Schema.NullOr(Schema.Struct({ trace_number: Schema.String }))),
  return: Schema.optionalKey(Schema.NullOr(Schema.Struct({ return_reason_code: Schema.String })))
})
type Transfer = typeof Transfer.Type

const failureOf = ({ return: returned, status }: Transfer): FailureCode => {
  if (status === "canceled") return "transfer_canceled"
  if (status === "rejected") return "transfer_rejected"
  return returnCodes[returned?.return_reason_code ?? ""] ?? "transfer_returned"
}

const transfer = HttpProvider.declareOrder({
  schema: Transfer,
  names: ({ id, idempotency_key }) => ({ reference: id, operation_id: idempotency_key }),
  result: (one) => {
    const state = states[one.status]
    return state === "failed" ? { state, code: failureOf(one) } : { state }
  },
  unproven: ({ currency, id }) =>
    currency === "USD" ? null : {
      reason: "unclear",
      detail: "the transfer is not in US dollars",
      question: `Transfer ${id} is not in US dollars. What did it move?`
    }
})

/** An error of the bank (RFC 9457). Its `type` is stable; its texts are for people, and may change. */
const problem = <T extends string>(...types: ReadonlyArray<T>) =>
  Schema.Struct({ type: Schema.Literals(types), status: Schema.Int, title: Schema.String })

const refusal = (type: string, code: FailureCode) => HttpProvider.refusal(problem(type), code)

const answered = ({ type }: { readonly type: string }) => `the bank answered ${type}`

/** The bank did nothing, and an operator can repair the cause. The operations of the bank wait until then. */
const repairable = (...types: ReadonlyArray<string>) => HttpProvider.repairable(problem(...types), answered)

/** The answer tells nothing about this transfer. The list by key does. */
const uncertain = (...types: ReadonlyArray<string>) => HttpProvider.uncertain(problem(...types), answered)

/** Answers with which the bank did nothing, to submissions and to reads. */
const nothingDone = {
  401: repairable("invalid_api_key_error"),
  // A key of the other environment is `environment_mismatch_error`: keys do not show where they belong. The bank documents the two others as
  // of the action and of the endpoint, so they are not of one operation.
  403: repairable("environment_mismatch_error", "insufficient_permissions_error", "private_feature_error"),
  429: HttpProvider.refusedFor(
    Schema.Struct({
      ...problem("rate_limited_error").fields,
      retry_after: Schema.optionalKey(Schema.NullOr(Schema.Int))
    }),
    ({ retry_after }) => retry_after
  )
}

const wrongPath = repairable("api_method_not_found_error")

const decodeSubmission = HttpProvider.byStatus({
  ...nothingDone,
  200: transfer.submitted,
  400: HttpProvider.firstOf(
    refusal("invalid_parameters_error", "invalid_details"),
    repairable("malformed_request_error")
  ),
  404: HttpProvider.firstOf(refusal("object_not_found_error", "account_unknown"), wrongPath),
  409: HttpProvider.firstOf(
    refusal("invalid_operation_error", "not_possible"),
    // Another body has the key: `resource_id` names its object, which the list by key shows as well.
    uncertain("idempotency_key_already_used_error", "idempotency_conflict_error")
  ),
  422: uncertain("idempotency_unprocessable_error"),
  500: uncertain("internal_server_error")
})

/** The transfer of a fence waits for its approval, and is then cancelled. A person who approves it makes it that of the operation. */
const holder = transfer.holder(({ status }) => {
  if (status === "canceled") return "cancelled"
  return status === "pending_approval" ? "waiting" : "first"
})

const KeyUsed = Schema.Struct({
  ...problem("idempotency_key_already_used_error").fields,
  resource_id: ProviderReference
})

const decodeFence = HttpProvider.byStatus({
  ...nothingDone,
  200: HttpProvider.firstOf(holder, HttpProvider.onlyEntry("data", holder)),
  409: HttpProvider.onBody(
    KeyUsed,
    ({ resource_id }) => HttpProvider.KeyHolder.First({ names: { reference: resource_id, operation_id: null } })
  )
})

const decodeStatus = HttpProvider.byStatus({
  ...nothingDone,
  // The list of the transfers with the key.
  200: HttpProvider.firstOf(HttpProvider.onlyEntry("data", transfer.read), HttpProvider.noEntry("data")),
  404: wrongPath
})

/** The settings of the adapter. */
export interface IncreaseOptions extends Pick<HttpProvider.HttpProviderOptions, "deadlines" | "limit"> {
  /** The bank's address: `https://api.increase.com`, or `https://sandbox.increase.com` without money. */
  readonly baseUrl: string
  /** A key of that environment. It may create and cancel transfers. */
  readonly apiKey: Redacted.Redacted<string>
  /**
   * Whether the operation's resource owner, or its provider connection, may pay from this account. `account_id` is text of the client, and
   * the key pays from every account: nothing else keeps an agent of one owner from the account of another. Say no to an unknown account, and
   * to one in another currency. After a no, nothing is sent, and the operation is `failed` with `not_permitted`. If it fails, the operation waits.
   */
  readonly mayPayFrom: (operation: ProviderOperation, accountId: string) => Effect.Effect<boolean, unknown>
  /**
   * Whether a transfer that waits for an approval, and is cancelled, occupies the key of a lost request. Default: true: each transfer names the
   * account that pays, so a key of another owner gets no such transfer.
   */
  readonly fence?: boolean
}

/** The adapter. Dies with a `TypeError` if an option cannot be right. */
export const at = (
  { fence = true, mayPayFrom, ...options }: IncreaseOptions
): Layer.Layer<ProviderAdapter, never, HttpClient.HttpClient> =>
  Layer.unwrap(Effect.sync(() => {
    const apiKey = HttpProvider.requireSecret("the key of Increase (INCREASE_API_KEY)", options.apiKey)
    const baseUrl = HttpProvider.requireAddress("the address of Increase (INCREASE_URL)", options.baseUrl)
    if (typeof mayPayFrom !== "function") throw new TypeError("mayPayFrom of Increase must be a function")
    return HttpProvider.layer({
      ...options,
      baseUrl,
      // The environment. Each transfer names its own account, and the bank knows it only with a key of its owner.
      account: new URL(baseUrl).hostname,
      payloads,
      failures,
      // It carries a request out however late it arrives, so "not found" is never final. A consumer may have an ACH transfer returned for
      // 60 days, and no bank returns a transfer between own accounts.
      promises: { keys: "for_ever", readByOperationId: "yes", reversibleFor: { byType: { ach_transfer: "60 days" } } },
      credentials: () => Effect.succeed(HttpProvider.bearer(apiKey)),
      isPermitted: (operation, { account_id }) => mayPayFrom(operation, account_id),
      submit: {
        request: (_operation, transfer, type) => requestOf(type, transfer),
        decode: decodeSubmission
      },
      fence: !fence ? undefined : {
        request: (_operation, transfer, type) => requestOf(type, transfer, { require_approval: true }),
        decode: decodeFence,
        cancel: (reference, { type }) => ({ method: "POST", path: `/${type}s/${encodeURIComponent(reference)}/cancel` })
      },
      status: {
        request: ({ id, type }) => ({ path: `/${type}s?idempotency_key=${id}` }),
        decode: decodeStatus
      }
    })
  }))

/** The adapter, with its other settings from the environment: INCREASE_URL and INCREASE_API_KEY. */
export const layer = (options: Pick<IncreaseOptions, "mayPayFrom">) =>
  Layer.unwrap(Effect.map(
    Config.all({ baseUrl: Config.String("INCREASE_URL"), apiKey: Config.Redacted("INCREASE_API_KEY") }),
    (found) => at({ ...found, ...options })
  ))
