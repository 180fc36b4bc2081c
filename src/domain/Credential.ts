/**
 * The credential of a request, and the reasons for which a verifier refuses it.
 */
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"

/** An access token, and what identifies its sender in the request. */
export interface Credential {
  readonly scheme: "Bearer" | "DPoP"
  readonly token: Redacted.Redacted<string>
  /** The `DPoP` header as received (RFC 9449 §4.1). Null if there was none. */
  readonly proof: Redacted.Redacted<string> | null
  /** SHA-256 thumbprint (RFC 8705 §3.1) of the client certificate that a trusted proxy forwarded, or null. */
  readonly certificate: string | null
  readonly method: string
  /** The URL of the request below the base URL, never from `Host`, without query and fragment. */
  readonly url: string
  /**
   * The URL of the resource that the request is for, if it is not the gateway as a whole (`McpResource`). Tokens for that URL
   * alone are good for this request, beside the tokens for the gateway. Null: only tokens for the gateway are.
   */
  readonly resource: string | null
}

/** A bearer token (RFC 6750), without proof of its sender. */
export const bearer = (token: Redacted.Redacted<string>): Credential => ({
  scheme: "Bearer",
  token,
  proof: null,
  certificate: null,
  method: "GET",
  url: "",
  resource: null
})

/** The credential is malformed, unknown or expired, is for another audience, or was not issued to its sender. */
export class InvalidCredential extends Schema.TaggedError<InvalidCredential>()("InvalidCredential", {
  /** For the log, and never for the client: why, such as a code of the library that verifies. It holds nothing of the credential. */
  reason: Schema.optionalKey(Schema.String)
}) {}

/** The DPoP proof is missing, or does not bind this request to the key of the token (RFC 9449 §4.3). */
export class InvalidDpopProof extends Schema.TaggedError<InvalidDpopProof>()("InvalidDpopProof", {
  /** For people. It holds no value of the DPoP proof. */
  reason: Schema.String
}) {}

/** The DPoP proof must carry this nonce (RFC 9449 §9). */
export class NonceRequired extends Schema.TaggedError<NonceRequired>()("NonceRequired", { nonce: Schema.String }) {}

/** Keys or the authorization server could not be reached, so the credential cannot be verified. Fail closed. */
export class AuthorizationUnavailable extends Schema.TaggedError<AuthorizationUnavailable>()(
  "AuthorizationUnavailable",
  { cause: Schema.Defect() }
) {}
