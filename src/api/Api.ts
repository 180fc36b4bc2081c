/**
 * The contract of the gateway. The server implements it, the client calls it, and the OpenAPI document describes it.
 *
 * The room `api`: the HTTP contract, from which server, clients and documents derive. Read this file first.
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as OpenApi from "effect/http-api/OpenApi"
import { completeDocument } from "./OpenApiDocument.ts"
import { OperationsApi } from "./OperationsApi.ts"
import { type ProblemCode, problemKinds } from "./ProblemKinds.ts"
import { SystemApi } from "./SystemApi.ts"

const complete = (document: object): object =>
  // Only by `Top` can the document be completed for any API.
  completeDocument(document as OpenApi.OpenAPISpec, Api as unknown as HttpApi.Top)

/** A problem in words, such as 404 `route_not_found`. */
const named = (code: ProblemCode): string => `${problemKinds[code].status} \`${code}\``

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
      + "it; reads never create a second submission to the upstream provider.\n\n"
      + "Each operation lists the statuses of requests for its path and method. Besides these, a path answers other methods with "
      + `${named("method_not_allowed")} and the header \`Allow\`, HEAD as GET, and OPTIONS with 204. Unknown paths are `
      + `${named("route_not_found")}. Before a request has a path, the listener answers ${
        named("malformed_request")
      } to bytes that are not `
      + `HTTP, ${named("request_timeout")} to headers that arrive too slowly, and ${named("headers_too_large")} or `
      + `${named("uri_too_long")} to those that are longer than 16 KiB.`,
    license: { name: "MIT", url: "https://opensource.org/license/mit" },
    servers: [{ url: "/" }],
    transform: complete
  }))
{}
