/**
 * The system endpoints: health, readiness and what the error codes mean. None requires authentication.
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { StrictRequest } from "./Middleware.ts"
import { responses } from "./Problems.ts"

/** Closed, and constant: whatever more a probe might want to know is in the logs. */
export const HealthResponse = Schema.Struct({ status: Schema.Literal("ok") }).annotate({
  identifier: "HealthResponse",
  description: "The gateway can do what was asked about."
})

/** One entry of the problem catalogue. */
export const ProblemDescription = Schema.Struct({
  type: Schema.String.annotate({ format: "uri" }),
  code: Schema.String,
  title: Schema.String,
  status: Schema.Int,
  retryable: Schema.Boolean,
  meaning: Schema.String,
  action: Schema.String
}).annotate({ identifier: "ProblemDescription", description: "What an error code means and what to do about it." })
export type ProblemDescription = typeof ProblemDescription.Type

const ProblemCatalogue = Schema.Struct({ problems: Schema.Array(ProblemDescription) }).annotate({
  identifier: "ProblemCatalogue",
  description: "Every error code of the service."
})

/** `GET /healthz`, `/readyz`, `/problems` and `/problems/{code}`. */
export class SystemApi extends HttpApiGroup.make("system").add(
  HttpApiEndpoint.get("health", "/healthz", { success: HealthResponse })
    .annotateMerge(OpenApi.annotations({
      identifier: "getHealth",
      summary: "Health",
      description: "Returns whether the gateway process can serve HTTP requests."
    })),
  HttpApiEndpoint.get("ready", "/readyz", {
    success: HealthResponse,
    error: responses.serviceUnavailable
  }).annotateMerge(OpenApi.annotations({
    identifier: "getReadiness",
    summary: "Readiness",
    description:
      "Returns whether the gateway is ready to receive traffic: its database answers within a second and has "
      + "every migration, and the gateway is not shutting down."
  })),
  HttpApiEndpoint.get("listProblems", "/problems", { success: ProblemCatalogue })
    .annotateMerge(OpenApi.annotations({
      identifier: "listProblems",
      summary: "Error codes",
      description: "Returns every error code of the service, with what it means and what to do about it."
    })),
  HttpApiEndpoint.get("getProblem", "/problems/:code", {
    params: { code: Schema.String.annotate({ description: "The error code." }) },
    success: ProblemDescription,
    error: responses.notFound
  }).annotateMerge(OpenApi.annotations({
    identifier: "getProblem",
    summary: "Error code",
    description: "Returns what one error code means. The `type` of every problem leads here."
  }))
)
  .middleware(StrictRequest)
  .annotate(HttpApi.QueryParseOptions, { onExcessProperty: "error", errors: "all" })
  .annotateMerge(OpenApi.annotations({ description: "Gateway health and public API metadata endpoints." }))
{}
