/**
 * What an authorization server says in an access token (RFC 9068 §2.2), or of one (RFC 7662 §2.2).
 */
import * as Schema from "effect/Schema"
import { ClientId, PairwiseSubject, Scope } from "../domain/Grant.ts"
import type { JsonObject } from "../http/JsonBody.ts"
import type { IssuerSettings } from "./Issuer.ts"
import type { Confirmation, VerifiedToken } from "./VerifiedToken.ts"

/** What claims are held against. */
export type ClaimRules = Pick<IssuerSettings, "issuer" | "audience" | "clockTolerance" | "grantClaim">

/** Seconds since the epoch, fractions too (RFC 7519 §2), until the end of the year 9999. */
const NumericDate = Schema.Number.check(Schema.isBetween({ minimum: 0, maximum: 253_402_300_799 }))

const optionalDate = Schema.optionalKey(NumericDate)
const Audience = Schema.Union([Schema.String, Schema.Array(Schema.String)])

/** A claim of an introspection response: whoever answers need not repeat all of the token (RFC 7662 §2.2). */
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
/** A grant is found by this name, so it is held to what the identifiers of the gateway are held to. */
const isGrantName: (value: unknown) => value is string = Schema.is(ClientId)

const unbound: Confirmation = { jkt: null, x5t: null }

/** A confirmation that we do not know is one that we cannot check, and one that names nothing confirms nobody. */
const readConfirmation = (claims: JsonObject): Confirmation | null => {
  if (!("cnf" in claims)) return unbound
  const decoded = decodeConfirmations(claims["cnf"])
  if (decoded._tag === "None") return null
  const confirmation = { jkt: decoded.value.jkt ?? null, x5t: decoded.value["x5t#S256"] ?? null }
  return confirmation.jkt === null && confirmation.x5t === null ? null : confirmation
}

/** Scope tokens with single spaces between them (RFC 6749 §3.3). Some servers say that there is none by an empty text. */
const readScopes = (scope: string | undefined): ReadonlyArray<Scope> | null => {
  if (scope === undefined || scope === "") return []
  const scopes = scope.split(" ")
  return scopes.every(isScope) ? scopes : null
}

/** Whether the token is good at this time (seconds since the epoch), its other claims aside. */
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
 * Reads the claims at this time (seconds since the epoch). Null when one is missing, malformed, or not for us: whoever
 * asks learns not which.
 */
export const readClaims = (
  claims: JsonObject,
  kind: "token" | "introspection",
  rules: ClaimRules,
  now: number
): VerifiedToken | null => {
  const decoded = (kind === "token" ? decodeTokenClaims : decodeIntrospectedClaims)(claims)
  if (decoded._tag === "None") return null
  const { aud, client_id, exp, iat, iss, scope, sub } = decoded.value
  if (iss !== undefined && iss !== rules.issuer) return null
  if (aud !== rules.audience && !(typeof aud !== "string" && aud.includes(rules.audience))) return null
  // A claim's name may be that of a method of all objects.
  const grant = Object.hasOwn(claims, rules.grantClaim) ? claims[rules.grantClaim] : undefined
  const scopes = readScopes(scope)
  const confirmation = readConfirmation(claims)
  if (!isGrantName(grant) || scopes === null || confirmation === null) return null
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
