/**
 * What a request brings to show on whose behalf it is made, and how a verifier refuses it.
 */
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"

/** An access token, and what the request shows of its sender. */
export interface Credential {
  readonly scheme: "Bearer" | "DPoP"
  readonly token: Redacted.Redacted<string>
  /** The `DPoP` header, as it came (RFC 9449 §4.1); null when there was none. */
  readonly proof: Redacted.Redacted<string> | null
  /** SHA-256 thumbprint (RFC 8705 §3.1) of the certificate that the client showed to a trusted proxy, or null. */
  readonly certificate: string | null
  readonly method: string
  /** What the client addressed, from the base URL and never from `Host`: without query and fragment. */
  readonly url: string
}

/** A token as RFC 6750 has it, and nothing that binds it to its sender. */
export const bearer = (token: Redacted.Redacted<string>): Credential => ({
  scheme: "Bearer",
  token,
  proof: null,
  certificate: null,
  method: "GET",
  url: ""
})

/** The credential is malformed, unknown or expired, was meant for somebody else, or is not the sender's own. */
export class InvalidCredential extends Schema.TaggedError<InvalidCredential>()("InvalidCredential", {}) {}

/** The DPoP proof is missing, or does not prove that this request is of whom the token was issued to (RFC 9449 §4.3). */
export class InvalidDpopProof extends Schema.TaggedError<InvalidDpopProof>()("InvalidDpopProof", {
  /** For people: it names no value of the proof. */
  reason: Schema.String
}) {}

/** The DPoP proof must carry this nonce (RFC 9449 §9). */
export class NonceRequired extends Schema.TaggedError<NonceRequired>()("NonceRequired", { nonce: Schema.String }) {}

/** Keys or the authorization server could not be reached, so nothing can be said of the credential. Fail closed. */
export class AuthorizationUnavailable extends Schema.TaggedError<AuthorizationUnavailable>()(
  "AuthorizationUnavailable",
  { cause: Schema.Defect() }
) {}
