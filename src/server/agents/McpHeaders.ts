/** Checks of the headers of an MCP request (Streamable HTTP), against its message. */
import { decodeNameHeader } from "effect/ai/McpServer"
import {
  capabilitiesMember,
  errorCodes,
  isObject,
  isRequest,
  type JsonRpcError,
  type JsonRpcMessage,
  legacy,
  metadataOf,
  modern,
  namedVersion,
  unsupportedVersion
} from "../../mcp/JsonRpc.ts"
import { preferredType, type RequestHeaders } from "../gate/RequestChecks.ts"

/** The member of `params` that the header `Mcp-Name` repeats, by method. */
const nameMembers: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri",
  "tasks/get": "taskId",
  "tasks/update": "taskId",
  "tasks/cancel": "taskId"
}

const mismatch = (message: string): JsonRpcError => ({ code: errorCodes.headerMismatch, message })

/** The error of a request of 2026-07-28 whose headers do not agree with it: proxies route by the headers. */
const findMismatch = (headers: RequestHeaders, method: string, params: Readonly<Record<string, unknown>>) => {
  if (headers["mcp-protocol-version"] !== modern) {
    return mismatch("The header MCP-Protocol-Version must name the version of the request")
  }
  if (headers["mcp-method"] !== method) return mismatch("The header Mcp-Method must name the method of the request")
  const member = Object.hasOwn(nameMembers, method) ? nameMembers[method] : undefined
  if (member === undefined) return null
  const header = headers["mcp-name"]
  return typeof params[member] !== "string" || header === undefined || decodeNameHeader(header) !== params[member]
    ? mismatch(`The header Mcp-Name must repeat params.${member}`)
    : null
}

/** A request of 2026-07-28 without its metadata is malformed as a whole, with any method. */
const findMissing = (message: JsonRpcMessage): JsonRpcError | null =>
  isRequest(message) && !isObject(metadataOf(message.params)[capabilitiesMember])
    ? { code: errorCodes.invalidParams, message: `params._meta must have the object ${capabilitiesMember}` }
    : null

/** Returns the error of a message with these headers, or null. Responses of the client need no headers. */
export const findHeaderError = (headers: RequestHeaders, message: JsonRpcMessage): JsonRpcError | null => {
  if (!("method" in message)) return null
  const header = headers["mcp-protocol-version"]
  const version = namedVersion(message.params)
  if (version === modern) {
    return findMismatch(headers, message.method, message.params ?? {}) ?? findMissing(message)
  }
  if (version !== null || (header !== undefined && header !== legacy && header !== modern)) {
    const { code, data, message } = unsupportedVersion(version ?? header)
    return { code, message, data }
  }
  // Notifications of 2026-07-28 have no metadata.
  return header === modern && "id" in message
    ? { code: errorCodes.invalidParams, message: "params._meta must name the protocol version" }
    : null
}

/** Whether the client reads server-sent events. */
export const acceptsEvents = ({ accept }: RequestHeaders): boolean =>
  accept === undefined || preferredType(accept, ["text/event-stream"]) !== undefined
