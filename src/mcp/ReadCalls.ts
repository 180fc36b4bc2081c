/**
 * Calls of the tools that read once. They ask the client nothing, and tell it nothing before their answer. So they need no connection to
 * Effect's server, which costs several times as much as the read.
 */
import * as McpSchema from "effect/ai/McpSchema"
import { McpServer } from "effect/ai/McpServer"
import * as Effect from "effect/Effect"
import type { AgentReads } from "./AgentReads.ts"
import {
  capabilitiesMember,
  isObject,
  type JsonObject,
  JsonRpcFailure,
  type JsonRpcRequest,
  legacy,
  metadataOf,
  namedVersion
} from "./JsonRpc.ts"
import { isOperationTool } from "./OperationTools.ts"
import { failedCall } from "./registerTools.ts"

/** The members of `params` that such a call may have. */
const plainMembers = new Set(["name", "arguments", "_meta"])

/** Tools that wait report their progress. */
const isReadTool = (name: unknown): name is string => isOperationTool(name) && name !== "wait_for_operation"

/**
 * The parameters of such a call. Null for all others, also for parameters of another form, which Effect's server refuses. Of the metadata
 * only the declaration of capabilities counts, as for any method.
 */
const plainParams = ({ method, params }: JsonRpcRequest) => {
  if (method !== "tools/call" || params === undefined || !isReadTool(params["name"])) return null
  for (const member in params) if (!plainMembers.has(member)) return null
  const { name, arguments: parameters = {}, _meta = {} } = params
  if (!isObject(parameters) || !isObject(_meta)) return null
  if (namedVersion(params) !== null && !isObject(metadataOf(params)[capabilitiesMember])) return null
  return { name, arguments: parameters }
}

/** The tools above look at no member of it. */
const noClient = McpSchema.McpServerClient.of({
  clientId: 0,
  protocolVersion: legacy,
  clientCapabilities: McpSchema.ClientCapabilities.make({}),
  clientInfo: McpSchema.Implementation.make({ name: "unknown", version: "unknown" }),
  initializePayload: {
    protocolVersion: legacy,
    capabilities: McpSchema.ClientCapabilities.make({}),
    clientInfo: McpSchema.Implementation.make({ name: "unknown", version: "unknown" })
  },
  getClient: Effect.die(new Error("a tool that only reads asks no client"))
})

/** Makes the function that answers such a call with its result. Null for all other requests. */
export const makeReadCalls = Effect.map(
  McpServer,
  (server) => (request: JsonRpcRequest): Effect.Effect<JsonObject, JsonRpcFailure, AgentReads> | null => {
    const params = plainParams(request)
    if (params === null) return null
    const isModern = namedVersion(request.params) !== null
    return server.callTool(params).pipe(
      Effect.catchTag("InvalidParams", ({ message }) => Effect.succeed(failedCall(message))),
      Effect.mapBoth({
        onFailure: ({ code, message }) => new JsonRpcFailure({ code, message }),
        onSuccess: ({ content, isError = false, structuredContent }): JsonObject => ({
          ...isModern ? { resultType: "complete" } : {},
          content,
          ...structuredContent === undefined ? {} : { structuredContent },
          isError
        })
      }),
      Effect.provideService(McpSchema.McpServerClient, noClient)
    )
  }
)
