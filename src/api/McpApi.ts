/**
 * The contract of the endpoint for language-model agents, which speaks the Model Context Protocol (MCP) over Streamable HTTP.
 *
 * It is not part of the OpenAPI document: MCP describes its tools itself.
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as Schema from "effect/Schema"
import { mcpPath } from "../domain/McpResource.ts"
import { Gate } from "./Middleware.ts"
import { problems, refusedGrants } from "./Problems.ts"

/** `POST /mcp`: one message of JSON-RPC 2.0. The response is JSON, or a stream of server-sent events. */
export const McpApi = HttpApi.make("mcp").add(
  HttpApiGroup.make("mcp").add(
    HttpApiEndpoint.post("message", mcpPath, {
      payload: Schema.Unknown,
      success: Schema.Unknown,
      error: problems(...refusedGrants, "origin_not_allowed", "unsupported_media_type", "request_timeout")
    })
  ).middleware(Gate)
)
