import type { Scope } from "../domain/Grant.ts"

/** Confirmation of a token (`cnf`, RFC 7800): the key and the certificate that its sender must hold. Null: none. */
export interface Confirmation {
  /** SHA-256 thumbprint of the key of DPoP proofs (RFC 9449 §6). */
  readonly jkt: string | null
  /** SHA-256 thumbprint of a certificate (RFC 8705 §3). */
  readonly x5t: string | null
}

/** The verified content of an access token or of an introspection response. */
export interface VerifiedToken {
  readonly issuer: string
  /** Client id at the authorization server, without the gateway's prefix. */
  readonly client_id: string
  /** Pairwise (OpenID Connect Core §8.1). */
  readonly subject: string
  /** Id of the grant at the authorization server. */
  readonly grant: string
  readonly scopes: ReadonlyArray<Scope>
  /** Seconds since the epoch; null if the claim is absent. */
  readonly issued_at: number | null
  /** Seconds since the epoch. */
  readonly expires_at: number
  readonly confirmation: Confirmation
  /** All claims, for those that a deployment defines itself. */
  readonly claims: { readonly [name: string]: unknown }
}
