/**
 * The contract of the gateway. The server implements it, the client calls it, and the OpenAPI document describes it.
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as OpenApi from "effect/http-api/OpenApi"
import { completeDocument } from "./OpenApiDocument.ts"
import { OperationsApi } from "./OperationsApi.ts"
import { SystemApi } from "./SystemApi.ts"

/** The whole contract, version 1.0.0: two groups of endpoints, each with its gate. */
export class Api extends HttpApi.make("financial-agents-gateway")
  .add(OperationsApi)
  .add(SystemApi)
  .annotateMerge(OpenApi.annotations({
    title: "Financial Agents Gateway",
    version: "1.0.0",
    summary: "What became of the work that financial agents asked for.",
    description:
      "Represents asynchronous financial work as durable operations. A caller tracks an operation by reading "
      + "it; reads never create a second submission to the upstream provider.",
    license: { name: "MIT", url: "https://opensource.org/license/mit" },
    servers: [{ url: "/" }],
    transform: (document) => completeDocument(document as OpenApi.OpenAPISpec)
  }))
{}
