/**
 * The failures that clients may read: those that the gateway itself records, the common refusals of providers, and those that an adapter
 * declares. The codes of the gateway are reserved: clients decide by them whether they may request again, so no adapter declares one, and
 * no person records one.
 */
import * as Schema from "effect/Schema"
import { isOperationFailure, OperationFailure } from "./Operation.ts"

const messages = {
  authorization_revoked: "The authorization ended before the provider took the operation; it will not be sent.",
  cancelled_unsent: "The operation was cancelled before it was sent.",
  payload_altered: "The stored request is not the one that was accepted, and was not sent.",
  payload_unreadable: "The request could not be read, and was not sent.",
  provider_never_received: "The provider never received the operation, and would not accept it any more.",
  /** The only one about an operation that the provider took and refused. */
  provider_rejected: "The provider refused the operation.",
  provider_unavailable: "The provider answered that it did not take the request, until it was too late to send.",
  provider_unreachable: "The provider could not be reached until it was too late to send.",
  request_unsendable: "The request cannot be sent to its provider, and was not sent."
} as const

export type GatewayFailureCode = keyof typeof messages

/** Codes of operations of which nothing was sent. The request of `provider_unavailable` was sent, and the provider did not take it. */
const unsent: ReadonlySet<string> = new Set(
  [
    "authorization_revoked",
    "cancelled_unsent",
    "payload_altered",
    "payload_unreadable",
    "provider_unreachable",
    "request_unsendable"
  ] satisfies ReadonlyArray<GatewayFailureCode>
)

/** Whether a code says that nothing was sent. */
export const isUnsentFailure = (code: string): boolean => unsent.has(code)

/** Whether a code is reserved. */
export const isGatewayFailureCode = (code: string): boolean => Object.hasOwn(messages, code)

/** A failure that a person records. A code of the gateway would tell clients and operators what the gateway did not find. */
export const RecordedFailure = Schema.Struct({
  code: OperationFailure.fields.code.check(
    Schema.makeFilter((code) => !isGatewayFailureCode(code), {
      expected: "a code that the gateway does not record itself"
    })
  ),
  message: OperationFailure.fields.message
})

/**
 * The refusals that most providers have. Their codes mean the same with each provider, and an adapter gives them without declaring them. It
 * declares one to say it in words of its own.
 */
export const commonFailures = {
  account_closed: { message: "An account of the operation is closed." },
  account_unknown: { message: "The provider does not know an account of the operation." },
  insufficient_funds: { message: "The account does not hold what the operation needs." },
  invalid_details: { message: "The provider does not accept the details of the operation." },
  limit_exceeded: { message: "The operation exceeds a limit of the provider." },
  not_permitted: { message: "The provider does not permit this operation to the account or to the gateway." }
} as const

export type CommonFailureCode = keyof typeof commonFailures

/** The failures that an adapter declares, by code, such as `{ payment_returned: { message: "The payment was returned." } }`. */
export type DeclaredFailures = Readonly<Record<string, { readonly message: string }>>

/** The failure of a code: declared, or common. Null: it is neither, or the gateway reserves it, or it has not the form of a failure. */
export const declaredFailure = (failures: DeclaredFailures = {}, code: string): OperationFailure | null => {
  const known: DeclaredFailures = { ...commonFailures, ...failures }
  if (!Object.hasOwn(known, code)) return null
  const failure = { code, message: known[code]!.message }
  return isOperationFailure(failure) && !isGatewayFailureCode(code) ? failure : null
}

export const gatewayFailure = (code: GatewayFailureCode): OperationFailure => ({ code, message: messages[code] })
