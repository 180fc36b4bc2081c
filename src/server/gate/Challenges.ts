/**
 * The challenges of a 401 or 403 response: how to authenticate (RFC 9110 §11.6.1).
 */
import { type AnyProblemCode, kindOf } from "../../api/ProblemKinds.ts"
import { operationsRead, type Scope } from "../../domain/Grant.ts"
import { mcpPath, mcpResource } from "../../domain/McpResource.ts"
import type { AcceptedCredentialsShape } from "../../services/verification/OAuthVerifier.ts"

/** The URL of a resource's metadata (RFC 9728 §3.1). The well-known part stands between host and path. */
const resourceMetadataUrl = (resource: string): string => {
  const { origin, pathname } = new URL(resource)
  return `${origin}${resourceMetadataPath}${pathname === "/" ? "" : pathname}`
}

const resourceMetadataPath = "/.well-known/oauth-protected-resource"

/** The `error` of a challenge (RFC 6750 §3.1, RFC 9449 §7.1), where a code has one. */
const errorOf: Partial<Record<AnyProblemCode, string>> = {
  invalid_token: "invalid_token",
  grant_revoked: "invalid_token",
  client_inactive: "invalid_token",
  invalid_dpop_proof: "invalid_dpop_proof",
  use_dpop_nonce: "use_dpop_nonce",
  insufficient_scope: "insufficient_scope",
  provider_disconnected: "provider_disconnected",
  limit_exceeded: "limit_exceeded",
  payee_not_allowed: "payee_not_allowed",
  operation_not_covered: "operation_not_covered",
  terms_required: "terms_required"
}

/** The problem that the challenge explains, and the scheme of the request's credential. */
interface Occasion {
  readonly code: AnyProblemCode
  readonly scheme: "Bearer" | "DPoP"
  readonly scope: Scope | undefined
  /** The path of the request: its resource has metadata of its own (`McpResource`). */
  readonly path: string
}

/**
 * Makes the value of `WWW-Authenticate`: one challenge for each accepted scheme. The challenge of the scheme that the
 * client used carries the error. On the path of the MCP resource they name its metadata. A 401 names the scope there as well,
 * because MCP clients take the scope to request from the challenge.
 */
export const makeChallenge = (accepted: AcceptedCredentialsShape, baseUrl: string) => {
  const { certificates, dpopAlgorithms, senderConstrained } = accepted
  const takesBearer = senderConstrained === "optional" || certificates !== null || dpopAlgorithms === null
  const schemes = {
    ...takesBearer ? { Bearer: "" } : {},
    ...dpopAlgorithms === null ? {} : { DPoP: `, algs="${dpopAlgorithms.join(" ")}"` }
  }
  const [gatewayMetadata, mcpMetadata] = [baseUrl, mcpResource(baseUrl)].map(resourceMetadataUrl)
  return ({ code, path, scheme, scope }: Occasion): string => {
    const isMcp = path === mcpPath
    const needed = isMcp && kindOf(code).status === 401 ? `, scope="${operationsRead}"` : ""
    const error = errorOf[code]
    const wrong = error === undefined
      ? ""
      : `, error="${error}", error_description="${kindOf(code).meaning}"`
    const concerned = scheme in schemes ? scheme : Object.keys(schemes)[0]
    const metadata = `resource_metadata="${isMcp ? mcpMetadata : gatewayMetadata}"`
    const named = scope === undefined ? "" : `, scope="${scope}"`
    return Object.entries(schemes)
      .map(([name, own]) =>
        `${name} realm="financial-agents-gateway"${name === concerned ? wrong + named : ""}${needed}${own}, ${metadata}`
      )
      .join(", ")
  }
}
