import type { Scope } from "../domain/Grant.ts"

/** To whom a token is bound (RFC 7800). Null where it is bound to no such thing. */
export interface Confirmation {
  /** SHA-256 thumbprint of the key of DPoP proofs (RFC 9449 §6). */
  readonly jkt: string | null
  /** SHA-256 thumbprint of a certificate (RFC 8705 §3). */
  readonly x5t: string | null
}

/** What an authorization server says in a token, or of one, once that is verified. */
export interface VerifiedToken {
  readonly issuer: string
  /** As the authorization server calls it. */
  readonly client_id: string
  /** Pairwise (OpenID Connect Core §8.1). */
  readonly subject: string
  /** The grant, by the authorization server's own name for it. */
  readonly grant: string
  readonly scopes: ReadonlyArray<Scope>
  /** Seconds since the epoch; null where it does not say. */
  readonly issued_at: number | null
  readonly expires_at: number
  readonly confirmation: Confirmation
  /** All that it says, for what a deployment looks for beyond. */
  readonly claims: { readonly [name: string]: unknown }
}
