/**
 * The contract of the system endpoints: health, readiness, error codes and resource metadata. None requires
 * authentication.
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { strict } from "../domain/InvalidMember.ts"
import { mcpPath } from "../domain/McpResource.ts"
import { HasPages } from "./HasPages.ts"
import { OpenGate } from "./Middleware.ts"
import { problemKinds } from "./ProblemKinds.ts"
import { problems } from "./Problems.ts"

/** Constant, without details for probes: those are in the logs. */
export const HealthResponse = Schema.Struct({ status: Schema.Literal("ok") }).annotate({
  identifier: "HealthResponse",
  description: "The process is alive (`/healthz`), or ready for traffic (`/readyz`).",
  examples: [{ status: "ok" }]
})

const exampleDescription = {
  type: "https://gateway.example/problems/grant_revoked",
  code: "grant_revoked",
  ...problemKinds.grant_revoked
}

/** One entry of the problem catalogue. */
export const ProblemDescription = Schema.Struct({
  type: Schema.String.annotate({ format: "uri" }),
  code: Schema.String,
  title: Schema.String,
  status: Schema.Int,
  retryable: Schema.Boolean,
  meaning: Schema.String,
  action: Schema.String
}).annotate({
  identifier: "ProblemDescription",
  description: "What an error code means and what to do about it.",
  examples: [exampleDescription]
})
export type ProblemDescription = typeof ProblemDescription.Type

const ProblemCatalogue = Schema.Struct({ problems: Schema.Array(ProblemDescription) }).annotate({
  identifier: "ProblemCatalogue",
  description: "Every error code of the service.",
  examples: [{ problems: [exampleDescription] }]
})

const exampleMetadata = {
  resource: "https://gateway.example",
  authorization_servers: ["https://as.example"],
  scopes_supported: ["operations:read"],
  bearer_methods_supported: ["header" as const],
  resource_name: "Financial Agents Gateway",
  resource_documentation: "https://gateway.example/docs",
  dpop_signing_alg_values_supported: ["ES256", "EdDSA", "Ed25519", "PS256"],
  dpop_bound_access_tokens_required: true
}

/** Tells clients how to obtain access tokens for the gateway, and how to present them (RFC 9728 §2). */
export const ProtectedResourceMetadata = Schema.Struct({
  resource: Schema.String.annotate({
    format: "uri",
    description: "The protected resource: the audience of its access tokens."
  }),
  authorization_servers: Schema.optionalKey(
    Schema.Array(Schema.String).annotate({
      description: "Issuers whose access tokens the gateway accepts."
    })
  ),
  scopes_supported: Schema.Array(Schema.String),
  bearer_methods_supported: Schema.Array(Schema.Literal("header")),
  resource_name: Schema.String,
  resource_documentation: Schema.String.annotate({ format: "uri" }),
  dpop_signing_alg_values_supported: Schema.optionalKey(Schema.Array(Schema.String)),
  dpop_bound_access_tokens_required: Schema.optionalKey(Schema.Boolean),
  tls_client_certificate_bound_access_tokens: Schema.optionalKey(Schema.Boolean)
}).annotate({
  identifier: "ProtectedResourceMetadata",
  description: "How to authenticate to the gateway.",
  examples: [exampleMetadata]
})
export type ProtectedResourceMetadata = typeof ProtectedResourceMetadata.Type

/** `GET /healthz`, `/readyz`, `/problems`, `/problems/{code}` and the metadata of the protected resources. */
export class SystemApi extends HttpApiGroup.make("system").add(
  HttpApiEndpoint.get("health", "/healthz", { success: HealthResponse })
    .annotateMerge(OpenApi.annotations({
      identifier: "getHealth",
      summary: "Health",
      description: "Returns whether the gateway process can serve HTTP requests."
    })),
  HttpApiEndpoint.get("ready", "/readyz", {
    success: HealthResponse,
    error: problems("not_ready", "service_unavailable")
  }).annotateMerge(OpenApi.annotations({
    identifier: "getReadiness",
    summary: "Readiness",
    description:
      "Returns whether the gateway is ready to receive traffic: its database answers within a second and has "
      + "every migration, and the gateway is not shutting down."
  })),
  HttpApiEndpoint.get("listProblems", "/problems", { success: ProblemCatalogue, error: problems("not_acceptable") })
    .annotateMerge(OpenApi.annotations({
      identifier: "listProblems",
      summary: "Error codes",
      description:
        "Returns every error code of the service, with what it means and what to do about it. Browsers get a page."
    }))
    .annotate(HasPages, true),
  HttpApiEndpoint.get("getProblem", "/problems/:code", {
    params: { code: Schema.String.annotate({ description: "The error code." }) },
    success: ProblemDescription,
    error: problems("route_not_found", "not_acceptable")
  }).annotateMerge(OpenApi.annotations({
    identifier: "getProblem",
    summary: "Error code",
    description: "Returns what one error code means. The `type` of every problem leads here. Browsers get a page."
  })).annotate(HasPages, true),
  HttpApiEndpoint.get("resourceMetadata", "/.well-known/oauth-protected-resource", {
    success: ProtectedResourceMetadata,
    error: problems("not_acceptable")
  }).annotateMerge(OpenApi.annotations({
    identifier: "getProtectedResourceMetadata",
    summary: "Protected resource metadata",
    description: "Returns which access tokens the gateway accepts, and from whom (RFC 9728)."
  })),
  HttpApiEndpoint.get("mcpResourceMetadata", `/.well-known/oauth-protected-resource${mcpPath}`, {
    success: ProtectedResourceMetadata.annotateKey({
      examples: [{ ...exampleMetadata, resource: `${exampleMetadata.resource}${mcpPath}` }]
    }),
    error: problems("not_acceptable")
  }).annotateMerge(OpenApi.annotations({
    identifier: "getMcpResourceMetadata",
    summary: "Protected resource metadata of the MCP endpoint",
    description:
      "Returns which access tokens the MCP endpoint accepts, and from whom (RFC 9728). MCP clients request tokens for its "
      + "`resource`."
  }))
)
  .middleware(OpenGate)
  .annotate(HttpApi.QueryParseOptions, strict)
  .annotateMerge(OpenApi.annotations({ description: "Gateway health and public API metadata endpoints." }))
{}
