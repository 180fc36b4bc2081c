/**
 * The credentials that the configured verifier accepts, for challenges and for the metadata of the protected resource.
 */
import * as Context from "effect/Context"

/** Value of `AcceptedCredentials`. */
export interface AcceptedCredentialsShape {
  /** Issuers whose access tokens are accepted (RFC 9728 §2). */
  readonly authorizationServers: ReadonlyArray<string>
  /** Algorithms of DPoP proofs; null if DPoP is not supported. */
  readonly dpopAlgorithms: ReadonlyArray<string> | null
  /** `required`: every token must be sender-constrained. */
  readonly senderConstrained: "required" | "optional"
  /** How a TLS-terminating proxy forwards client certificates; null if there is no such proxy. */
  readonly certificates: ForwardedCertificates | null
}

/** Client certificates that a TLS-terminating proxy forwards in a header. */
export interface ForwardedCertificates {
  /** Name of the header, in lower case. The proxy must remove this header from the requests of its clients. */
  readonly header: string
  /**
   * Trusted proxies: IPv4 or IPv6 addresses, or blocks in CIDR notation. The gateway does not start if an entry is
   * neither.
   */
  readonly proxies: ReadonlyArray<string>
}

/**
 * The credentials that the gateway accepts, for its challenges and metadata. Default: its own bearer tokens.
 * `GrantVerifier.layerIssuers` provides another value.
 */
export const AcceptedCredentials: Context.Reference<AcceptedCredentialsShape> = Context.Reference(
  "financial-agents-gateway/services/verification/AcceptedCredentials",
  {
    defaultValue: (): AcceptedCredentialsShape => ({
      authorizationServers: [],
      dpopAlgorithms: null,
      senderConstrained: "optional",
      certificates: null
    })
  }
)
