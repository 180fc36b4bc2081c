/**
 * Which credentials the verifiers at hand accept, for challenges and for the metadata of the protected resource.
 */
import * as Context from "effect/Context"

export interface AcceptedCredentialsShape {
  /** Issuers whose access tokens are accepted (RFC 9728 §2). */
  readonly authorizationServers: ReadonlyArray<string>
  /** Algorithms of DPoP proofs; null where DPoP is not supported. */
  readonly dpopAlgorithms: ReadonlyArray<string> | null
  /** Whether every token must be bound to its sender. */
  readonly senderConstrained: "required" | "optional"
  /** How the certificate of a client comes here, where TLS ends before; null where none does. */
  readonly certificates: ForwardedCertificates | null
}

/** The header in which a proxy forwards the certificate that its client showed it. */
export interface ForwardedCertificates {
  /** In lower case. The proxy must remove it from what clients send. */
  readonly header: string
  /**
   * Addresses of the proxies that are believed, or blocks of them in CIDR notation; IPv4 or IPv6. The gateway does not
   * start with what is neither.
   */
  readonly proxies: ReadonlyArray<string>
}

/** Bearer tokens of the gateway itself, unless a verifier says otherwise. */
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
