/**
 * The endpoint for language-model agents, as routes. It is the entry of this room: an application that does not import it has no
 * `/mcp`, and loads nothing of MCP.
 */
import type { McpServer } from "effect/ai/McpServer"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Layer from "effect/Layer"
import { McpApi } from "../../api/McpApi.ts"
import { McpConnections } from "../../mcp/McpConnections.ts"
import { GateLayer } from "../gate/Gate.ts"
import { Problems } from "../gate/ProblemResponses.ts"
import { ChangeWatcher } from "../waits/ChangeWatcher.ts"
import { McpLayer } from "./McpEndpoint.ts"

export { mutationTool, type MutationToolOptions } from "./MutationTool.ts"

const Endpoint = HttpApiBuilder.layer(McpApi).pipe(
  Layer.provide(McpLayer),
  Layer.provide([ChangeWatcher.layer, GateLayer]),
  Layer.provide(Problems.layer)
)

type Needs = Exclude<Layer.Services<typeof Endpoint>, McpConnections>

/**
 * `POST /mcp`, for the router of any application, and for the option `agents` of `GatewayApp`. `tools` are tools of the application
 * beside those that read operations: `McpServer.toolkit` of Effect, with handlers. Default: none.
 */
export const McpRoutes: {
  (): Layer.Layer<never, never, Needs>
  <E, R>(tools: Layer.Layer<never, E, R>): Layer.Layer<never, E, Exclude<R, McpServer> | Needs>
} = (tools: Layer.Layer<never, unknown, unknown> = Layer.empty) =>
  // The compiler cannot see that the tools need none of the services inside.
  Layer.provide(Endpoint, Layer.provideMerge(tools, McpConnections.layer)) as never
