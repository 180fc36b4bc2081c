/**
 * An authorization server as the gateway is configured to trust it.
 */
import * as Duration from "effect/Duration"

/** What to say of an authorization server whose access tokens are accepted. */
export interface IssuerOptions {
  /** Its issuer identifier (RFC 8414 §2), letter for letter. */
  readonly issuer: string
  /** What its tokens must be meant for (`aud`): the base URL of the gateway. */
  readonly audience: string
  /** Of its signatures. Default: `defaultAlgorithms`. */
  readonly algorithms?: ReadonlyArray<string>
  /** How far its clock may be from ours, a minute at most. Default: 5 seconds. */
  readonly clockTolerance?: Duration.Input
  /** The claim that names the grant. Default: `grant_id`. */
  readonly grantClaim?: string
  /** Where its keys are. Default: its metadata says so. */
  readonly jwksUri?: string
}

/** The same, with the defaults filled in. */
export interface IssuerSettings {
  readonly issuer: string
  readonly audience: string
  readonly algorithms: ReadonlyArray<string>
  /** Seconds. */
  readonly clockTolerance: number
  readonly grantClaim: string
  readonly jwksUri: string | null
}

/** What FAPI 2.0 allows (Security Profile §5.4), under the old name and the new of Ed25519 (RFC 9864). */
export const defaultAlgorithms: ReadonlyArray<string> = ["ES256", "EdDSA", "Ed25519", "PS256"]

/** What may be configured: signatures with key pairs, because a shared secret would let its holders sign. */
export const supportedAlgorithms: ReadonlyArray<string> = [
  ...defaultAlgorithms,
  "ES384",
  "ES512",
  "PS384",
  "PS512",
  "RS256"
]

const loopbackHosts: ReadonlySet<string> = new Set(["127.0.0.1", "[::1]", "localhost"])

/** Fills in the defaults. See `validateIssuerSettings` for what is wrong with the result. */
export const issuerSettings = (options: IssuerOptions): IssuerSettings => ({
  issuer: options.issuer,
  audience: options.audience,
  algorithms: options.algorithms ?? defaultAlgorithms,
  clockTolerance: Duration.toSeconds(Duration.fromInputUnsafe(options.clockTolerance ?? "5 seconds")),
  grantClaim: options.grantClaim ?? "grant_id",
  jwksUri: options.jwksUri ?? null
})

/** Why a URL may not be that of an issuer, as the end of a sentence; or null. */
const validateUrl = (text: string): string | null => {
  if (!/^[\x21-\x7e]{1,255}$/.test(text) || !URL.canParse(text)) return "is not a URL"
  const { hostname, password, protocol, username } = new URL(text)
  if (protocol !== "https:" && !(protocol === "http:" && loopbackHosts.has(hostname))) {
    return "must be https, or http on 127.0.0.1, [::1] or localhost"
  }
  return username + password === "" && !text.includes("#") ? null : "must have neither a user nor a fragment"
}

/**
 * Why a URL may not be used for the endpoint or the keys of an issuer, as the end of a sentence; or null. Plain HTTP
 * is for issuers that speak it themselves. A query is allowed (RFC 6749 §3.2).
 */
export const validateEndpoint = (issuer: string, url: string): string | null => {
  const fault = validateUrl(url)
  if (fault !== null) return fault
  return new URL(url).protocol === "http:" && new URL(issuer).protocol === "https:"
    ? "must be https, like its issuer"
    : null
}

/** What is wrong with the algorithms for signatures of `whom`, as a sentence; or null. */
export const validateAlgorithms = (algorithms: ReadonlyArray<string>, whom: string): string | null => {
  if (algorithms.length === 0) return `${whom} need at least one signature algorithm.`
  const unknown = algorithms.find((algorithm) => !supportedAlgorithms.includes(algorithm))
  return unknown === undefined
    ? null
    : `${unknown} is not accepted for signatures of ${whom}: choose from ${supportedAlgorithms.join(", ")}.`
}

/** What is wrong with the settings, as one sentence; or null. */
export const validateIssuerSettings = (settings: IssuerSettings): string | null => {
  const { algorithms, audience, clockTolerance, grantClaim, issuer, jwksUri } = settings
  const fault = validateUrl(issuer) ?? (issuer.includes("?") ? "must have no query" : null)
  if (fault !== null) return `The issuer ${JSON.stringify(issuer)} ${fault}.`
  if (audience === "") return `The audience of the tokens of ${issuer} must not be empty.`
  if (!(clockTolerance >= 0 && clockTolerance <= 60)) {
    return `The clock tolerance for ${issuer} must be between 0 and 60 seconds.`
  }
  if (grantClaim === "") return `The grant claim of the tokens of ${issuer} must have a name.`
  const keysFault = jwksUri === null ? null : validateEndpoint(issuer, jwksUri)
  if (keysFault !== null) return `The key set of ${issuer} at ${JSON.stringify(jwksUri)} ${keysFault}.`
  return validateAlgorithms(algorithms, issuer)
}
