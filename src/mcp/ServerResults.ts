/** Completes the responses to clients: capabilities that are true, and results in quoted text. */
import * as Effect from "effect/Effect"
import { ServerVersion } from "../domain/McpResource.ts"
import {
  errorCodes,
  isObject,
  type JsonObject,
  type JsonRpcError,
  type JsonRpcRequest,
  type JsonRpcResponse,
  metadataOf,
  namedVersion
} from "./JsonRpc.ts"
import { refusalText } from "./OperationAnswer.ts"
import { tasksExtension } from "./OperationTasks.ts"
import { isOperationTool } from "./OperationTools.ts"
import { quotedJson } from "./QuotedText.ts"

/** Name and version of the server, for clients. */
export const serverInfo = Effect.map(ServerVersion, (version) => ({ name: "financial-agents-gateway", version }))
type ServerInfo = Effect.Success<typeof serverInfo>

/** Lists never change while the server runs, logs are for operators, no argument is completed, and there are no subscriptions. */
const capabilitiesOf = (capabilities: JsonObject, isModern: boolean): JsonObject => {
  const { completions: _completions, extensions: _extensions, logging: _logging, resources, tools, ...others } =
    capabilities
  return {
    ...others,
    ...isObject(tools) ? { tools: { ...tools, listChanged: false } } : {},
    ...isObject(resources) ? { resources: { ...resources, listChanged: false, subscribe: false } } : {},
    ...isModern ? { extensions: { [tasksExtension]: {} } } : {}
  }
}

/** The text that the model reads has the structured content in quoted form. */
const quoteContent = (result: JsonObject): JsonObject =>
  isObject(result["structuredContent"])
    ? { ...result, content: [{ type: "text", text: quotedJson(result["structuredContent"]) }] }
    : result

/** How Effect's server begins the texts of calls that reached no handler, or ended in a defect. */
const failureTexts = [
  ["Invalid parameters for tool", "invalid_request"],
  ["Tool execution failed due to an internal server error", "internal_error"]
] as const

/** Most characters of such a text, and of an error, which may repeat all that the client sent. */
const maxFailureText = 1000

/** Masks tokens of recognizable form. Effect's server repeats unknown names, and a client may have sent a token as one. */
const withoutTokens = (text: string): string => text.replaceAll(/(fingw_|eyJ)[\w.~+/=-]+/g, "$1…")

const shorten = (text: string): string => text.length > maxFailureText ? `${text.slice(0, maxFailureText)}…` : text

/** A call that failed outside of its handler. Those of reading tools get the advice, as every refused read does. */
const adviseOnFailure = (tool: unknown, result: JsonObject): JsonObject => {
  const [block] = result["isError"] === true && Array.isArray(result["content"]) ? result["content"] : []
  const text = isObject(block) && typeof block["text"] === "string" ? block["text"] : ""
  const [, code] = failureTexts.find(([beginning]) => text.startsWith(beginning)) ?? []
  if (code === undefined) return result
  const detail = shorten(withoutTokens(text))
  return {
    ...result,
    content: [{ type: "text", text: isOperationTool(tool) ? refusalText({ code, detail }) : detail }]
  }
}

const completeResult = (
  { method, params }: JsonRpcRequest,
  result: JsonObject,
  server: ServerInfo
): JsonObject => {
  const isModern = namedVersion(params) !== null
  const named = isModern
    ? { ...result, _meta: { ...metadataOf(result), "io.modelcontextprotocol/serverInfo": server } }
    : result
  switch (method) {
    case "tools/call":
      return adviseOnFailure(params?.["name"], quoteContent(named))
    case "initialize":
    case "server/discover":
      return isObject(named["capabilities"])
        ? { ...named, capabilities: capabilitiesOf(named["capabilities"], isModern) }
        : named
    default:
      return named
  }
}

/** Version 2025-11-25 has a code of its own for resources that do not exist. */
const codeOf = ({ method, params }: JsonRpcRequest, { code }: JsonRpcError): number =>
  method === "resources/read" && namedVersion(params) === null && code === errorCodes.invalidParams
    ? errorCodes.resourceNotFound
    : code

const completeError = (request: JsonRpcRequest, error: JsonRpcError): JsonRpcError => {
  const { data, message } = JSON.parse(withoutTokens(JSON.stringify(error))) as JsonRpcError
  return { code: codeOf(request, error), message: shorten(message), ...data === undefined ? {} : { data } }
}

/** The response to a request, from a result or a response of Effect's server. */
export const completeResponse = (
  request: JsonRpcRequest,
  answered: JsonObject | JsonRpcResponse,
  server: ServerInfo
): JsonRpcResponse => {
  const response = answered as JsonRpcResponse
  if (response.jsonrpc === "2.0" && "error" in response) {
    return { ...response, error: completeError(request, response.error) }
  }
  const result = response.jsonrpc === "2.0" && "result" in response ? response.result : answered as JsonObject
  return { jsonrpc: "2.0", id: request.id, result: completeResult(request, result, server) }
}
