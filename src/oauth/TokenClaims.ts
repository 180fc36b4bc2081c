/**
 * Reads and checks the claims of an access token (RFC 9068 §2.2) or of an introspection response (RFC 7662 §2.2),
 * and that the sender of a sender-constrained token holds its key or certificate (RFC 7800). jose does not check that.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type Credential, InvalidCredential, type InvalidDpopProof, type NonceRequired } from "../domain/Credential.ts"
import { ClientId, ExternalId, PairwiseSubject, Scope } from "../domain/Grant.ts"
import type { JsonObject } from "../http/JsonExchange.ts"
import type { DpopProofUse, VerifyDpopProof } from "./DpopProof.ts"
import type { IssuerSettings } from "./Issuer.ts"

/** The settings that claims are checked against. */
export type ClaimRules = Pick<IssuerSettings, "issuer" | "audience" | "clockTolerance" | "grantClaim">

/** Seconds since the epoch, with fractions (RFC 7519 §2), until the end of the year 9999. */
const NumericDate = Schema.Number.check(Schema.isBetween({ minimum: 0, maximum: 253_402_300_799 }))

const optionalDate = Schema.optionalKey(NumericDate)
const Audience = Schema.Union([Schema.String, Schema.Array(Schema.String)])

/** Claims of an introspection response. The server need not repeat all claims of the token (RFC 7662 §2.2). */
const IntrospectedClaims = Schema.Struct({
  iss: Schema.optionalKey(Schema.String),
  aud: Audience,
  exp: NumericDate,
  nbf: optionalDate,
  iat: optionalDate,
  sub: PairwiseSubject,
  client_id: ClientId,
  scope: Schema.optionalKey(Schema.String)
})

const TokenClaims = Schema.Struct({
  ...IntrospectedClaims.fields,
  iss: Schema.String,
  iat: NumericDate,
  jti: Schema.NonEmptyString
})

const Thumbprint = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{43}$/u))

const Confirmations = Schema.Struct({
  jkt: Schema.optionalKey(Thumbprint),
  "x5t#S256": Schema.optionalKey(Thumbprint)
})

const decodeTokenClaims = Schema.decodeUnknownOption(TokenClaims)
const decodeIntrospectedClaims = Schema.decodeUnknownOption(IntrospectedClaims)
const decodeConfirmations = Schema.decodeUnknownOption(Confirmations, { onExcessProperty: "error" })
const isScope = Schema.is(Scope)
const isExternalId = Schema.is(ExternalId)

const unconstrained: Confirmation = { jkt: null, x5t: null }

/**
 * Reads `cnf`. Null if it has an unknown member, which the gateway cannot check, or no member, which confirms no sender.
 */
const readConfirmation = (claims: JsonObject): Confirmation | null => {
  if (!("cnf" in claims)) return unconstrained
  const decoded = decodeConfirmations(claims["cnf"])
  if (decoded._tag === "None") return null
  const confirmation = { jkt: decoded.value.jkt ?? null, x5t: decoded.value["x5t#S256"] ?? null }
  return confirmation.jkt === null && confirmation.x5t === null ? null : confirmation
}

/** Splits scope tokens at single spaces (RFC 6749 §3.3). Some servers send an empty text if there is no scope. */
const readScopes = (scope: string | undefined): ReadonlyArray<Scope> | null => {
  if (scope === undefined || scope === "") return []
  const scopes = scope.split(" ")
  return scopes.every(isScope) ? scopes : null
}

/** Whether `exp`, `iat` and `nbf` allow the token at this time, in seconds since the epoch. Checks no other claim. */
export const isTimely = (
  { claims, expires_at, issued_at }: VerifiedToken,
  { clockTolerance }: Pick<ClaimRules, "clockTolerance">,
  now: number
): boolean => {
  const { nbf } = claims
  return now < expires_at + clockTolerance
    && (issued_at === null || issued_at <= now + clockTolerance)
    && (typeof nbf !== "number" || nbf <= now + clockTolerance)
}

/**
 * The audiences that a token may name for a resource (`Credential.resource`). The gateway's is good for all of its resources.
 * The other one is the resource itself (RFC 8707 §2).
 */
export const acceptedAudiences = (
  { audience }: Pick<ClaimRules, "audience">,
  resource: string | null
): Array<string> => resource === null ? [audience] : [audience, resource]

/**
 * Reads the claims for a resource at this time, in seconds since the epoch. Null if a claim is missing, malformed, or for
 * another issuer or audience. The result does not name the claim, so that no client learns it.
 */
export const readClaims = (
  claims: JsonObject,
  kind: "token" | "introspection",
  rules: ClaimRules,
  resource: string | null,
  now: number
): VerifiedToken | null => {
  const decoded = (kind === "token" ? decodeTokenClaims : decodeIntrospectedClaims)(claims)
  if (decoded._tag === "None") return null
  const { aud, client_id, exp, iat, iss, scope, sub } = decoded.value
  if (iss !== undefined && iss !== rules.issuer) return null
  const named = typeof aud === "string" ? [aud] : aud
  if (!acceptedAudiences(rules, resource).some((accepted) => named.includes(accepted))) return null
  // The configured name may be that of an inherited member, such as `constructor`.
  const grant = Object.hasOwn(claims, rules.grantClaim) ? claims[rules.grantClaim] : undefined
  const scopes = readScopes(scope)
  const confirmation = readConfirmation(claims)
  if (!isExternalId(grant) || scopes === null || confirmation === null) return null
  const token: VerifiedToken = {
    issuer: rules.issuer,
    client_id,
    subject: sub,
    grant,
    scopes,
    issued_at: iat ?? null,
    expires_at: exp,
    confirmation,
    claims
  }
  return isTimely(token, rules, now) ? token : null
}

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

interface ConfirmationSettings {
  /** `required`: every token must be sender-constrained. */
  readonly senderConstrained: "required" | "optional"
  /** Null if DPoP is not supported. Every key-bound token is then invalid. */
  readonly verifyDpopProof: VerifyDpopProof | null
}

/**
 * Confirms the sender of a token. Yields the use of the DPoP proof, which the caller must check for replay after all other
 * checks; null without a DPoP proof.
 */
type Confirm = (
  token: VerifiedToken,
  credential: Credential
) => Effect.Effect<DpopProofUse | null, InvalidCredential | InvalidDpopProof | NonceRequired>

const invalid = Effect.fail(new InvalidCredential())

/**
 * Makes the check of the sender:
 *
 * - A key-bound token needs the scheme `DPoP` and a DPoP proof (RFC 9449 §7.1). As a bearer token it is invalid (§7.2).
 * - A certificate-bound token needs a connection with that certificate (RFC 8705 §3).
 * - A token that is bound to both needs both.
 * - A token that is not key-bound must come without a DPoP proof. Otherwise the client is wrong about its token, or an
 *   attacker removed the confirmation.
 *
 * Thumbprints need no comparison in constant time, because they are digests of public values.
 */
export const makeConfirm = ({ senderConstrained, verifyDpopProof }: ConfirmationSettings): Confirm =>
(
  { confirmation: { jkt, x5t } },
  credential
) => {
  if (x5t !== null && x5t !== credential.certificate) return invalid
  if (jkt !== null) {
    return verifyDpopProof === null || credential.scheme !== "DPoP" ? invalid : verifyDpopProof(credential, jkt)
  }
  if (credential.scheme === "DPoP" || credential.proof !== null) return invalid
  return x5t === null && senderConstrained === "required" ? invalid : Effect.succeed(null)
}
