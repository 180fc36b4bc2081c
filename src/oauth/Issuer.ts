/** Configuration of an authorization server whose access tokens the gateway accepts. */
import * as Duration from "effect/Duration"
import { loopbackHosts } from "../http/OutgoingRequest.ts"

/** Options of an authorization server whose access tokens are accepted. */
export interface IssuerOptions {
  /** Issuer identifier (RFC 8414 §2), exactly as its tokens and metadata contain it. */
  readonly issuer: string
  /**
   * Audience that its tokens must name (`aud`): the base URL of the gateway. On the MCP endpoint, its URL is good as well
   * (`McpResource`).
   */
  readonly audience: string
  /** Accepted signature algorithms. Default: `defaultAlgorithms`. */
  readonly algorithms?: ReadonlyArray<string>
  /** Greatest difference of its clock and the gateway's, at most 60 seconds. Default: 5 seconds. */
  readonly clockTolerance?: Duration.Input
  /** The claim that names the grant. Default: `grant_id`. */
  readonly grantClaim?: string
  /** URL of its key set. Default: the `jwks_uri` of its metadata. */
  readonly jwksUri?: string
}

/** `IssuerOptions` with all defaults. */
export interface IssuerSettings extends Required<Omit<IssuerOptions, "clockTolerance" | "jwksUri">> {
  /** Seconds. */
  readonly clockTolerance: number
  readonly jwksUri: string | null
}

/** The algorithms of FAPI 2.0 (Security Profile §5.4). `EdDSA` and `Ed25519` (RFC 9864) are the old and the new name of one. */
export const defaultAlgorithms: ReadonlyArray<string> = ["ES256", "EdDSA", "Ed25519", "PS256"]

/** Algorithms that may be configured. All use key pairs, because every holder of a shared secret could sign tokens. */
const supportedAlgorithms: ReadonlyArray<string> = [
  ...defaultAlgorithms,
  "ES384",
  "ES512",
  "PS384",
  "PS512",
  "RS256"
]

/** Adds the defaults. Check the result with `validateIssuerSettings`. */
export const issuerSettings = (options: IssuerOptions): IssuerSettings => ({
  issuer: options.issuer,
  audience: options.audience,
  algorithms: options.algorithms ?? defaultAlgorithms,
  clockTolerance: Duration.toSeconds(Duration.fromInputUnsafe(options.clockTolerance ?? "5 seconds")),
  grantClaim: options.grantClaim ?? "grant_id",
  jwksUri: options.jwksUri ?? null
})

/** Returns why a URL is invalid for an issuer, as the end of a sentence; null if it is valid. */
const validateUrl = (text: string): string | null => {
  if (!/^[\x21-\x7e]{1,255}$/.test(text) || !URL.canParse(text)) return "is not a URL"
  const { hostname, password, protocol, username } = new URL(text)
  if (protocol !== "https:" && !(protocol === "http:" && loopbackHosts.has(hostname))) {
    return "must be https, or http on 127.0.0.1, [::1] or localhost"
  }
  return username + password === "" && !text.includes("#") ? null : "must have neither a user nor a fragment"
}

/**
 * Returns why a URL is invalid for an endpoint or the key set of an issuer, as the end of a sentence; null if valid.
 * Plain HTTP is valid only if the issuer uses it too. A query is allowed (RFC 6749 §3.2).
 */
export const validateEndpoint = (issuer: string, url: string): string | null => {
  const invalid = validateUrl(url)
  if (invalid !== null) return invalid
  return new URL(url).protocol === "http:" && new URL(issuer).protocol === "https:"
    ? "must be https, like its issuer"
    : null
}

/** Returns why the signature algorithms of `signer` are invalid, as one sentence for the operator; null if valid. */
export const validateAlgorithms = (algorithms: ReadonlyArray<string>, signer: string): string | null => {
  if (algorithms.length === 0) return `${signer} need at least one signature algorithm.`
  const unknown = algorithms.find((algorithm) => !supportedAlgorithms.includes(algorithm))
  return unknown === undefined
    ? null
    : `${unknown} is not accepted for signatures of ${signer}: choose from ${supportedAlgorithms.join(", ")}.`
}

/** Returns what is invalid in the settings, as one sentence for the operator; null if they are valid. */
export const validateIssuerSettings = (settings: IssuerSettings): string | null => {
  const { algorithms, audience, clockTolerance, grantClaim, issuer, jwksUri } = settings
  const invalidIssuer = validateUrl(issuer) ?? (issuer.includes("?") ? "must have no query" : null)
  if (invalidIssuer !== null) return `The issuer ${JSON.stringify(issuer)} ${invalidIssuer}.`
  if (audience === "") return `The audience of the tokens of ${issuer} must not be empty.`
  if (!(clockTolerance >= 0 && clockTolerance <= 60)) {
    return `The clock tolerance for ${issuer} must be between 0 and 60 seconds.`
  }
  if (grantClaim === "") return `The grant claim of the tokens of ${issuer} must have a name.`
  const invalidKeySet = jwksUri === null ? null : validateEndpoint(issuer, jwksUri)
  if (invalidKeySet !== null) return `The key set of ${issuer} at ${JSON.stringify(jwksUri)} ${invalidKeySet}.`
  return validateAlgorithms(algorithms, issuer)
}
