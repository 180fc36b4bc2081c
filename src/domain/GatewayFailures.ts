/**
 * The failures that the gateway itself records. Their codes are reserved: clients decide by them whether they may request again, so
 * `publicFailure` gives none of them to what a provider says.
 */
import type { OperationFailure } from "./Operation.ts"

/** The messages, by code. */
const messages = {
  authorization_revoked: "The authorization ended before the provider took the operation; it will not be sent.",
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

/** Whether a code is reserved. */
export const isGatewayFailureCode = (code: string): boolean => Object.hasOwn(messages, code)

export const gatewayFailure = (code: GatewayFailureCode): OperationFailure => ({ code, message: messages[code] })
