/**
 * The messages of JSON-RPC 2.0, as the Model Context Protocol (MCP) uses them: their types and error codes, how they are read, the
 * versions that they name, and their translation to the messages of Effect's RPC server.
 */
import type { FromClientEncoded, FromServerEncoded, RequestId as RpcRequestId } from "effect/rpc/RpcMessage"
import * as Schema from "effect/Schema"

/** The members of an object of JSON. */
export type JsonObject = Readonly<Record<string, unknown>>

/** The id of a request, which its response repeats. MCP does not allow null. */
export type RequestId = string | number

/** A request of the client, which gets one response. */
export interface JsonRpcRequest {
  readonly jsonrpc: "2.0"
  readonly id: RequestId
  readonly method: string
  readonly params?: JsonObject | undefined
}

/** A message that gets no response. */
export interface JsonRpcNotification {
  readonly jsonrpc: "2.0"
  readonly method: string
  readonly params?: JsonObject | undefined
}

/** The error of a response. */
export interface JsonRpcError {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

/** The response to a request. The id is null if the request had no valid one. */
export type JsonRpcResponse =
  | { readonly jsonrpc: "2.0"; readonly id: RequestId; readonly result: JsonObject }
  | { readonly jsonrpc: "2.0"; readonly id: RequestId | null; readonly error: JsonRpcError }

export type JsonRpcMessage = JsonRpcRequest | JsonRpcNotification | JsonRpcResponse

/** Error codes of JSON-RPC 2.0 §5.1 and of MCP. `resourceNotFound` is of 2025-11-25, and the last three are of 2026-07-28. */
export const errorCodes = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
  resourceNotFound: -32002,
  headerMismatch: -32020,
  missingClientCapability: -32021,
  unsupportedProtocolVersion: -32022
} as const

/** A request that is answered with a JSON-RPC error. */
export class JsonRpcFailure extends Schema.TaggedError<JsonRpcFailure>()("JsonRpcFailure", {
  code: Schema.Int,
  message: Schema.String,
  data: Schema.optionalKey(Schema.Unknown)
}) {}

/** Whether a value is an object of JSON. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Fractional numbers are no ids (MCP, "Requests"). */
const isRequestId = (value: unknown): value is RequestId => typeof value === "string" || Number.isSafeInteger(value)

/** The response with an error. */
export const errorResponse = (id: RequestId | null, error: JsonRpcError): JsonRpcResponse => ({
  jsonrpc: "2.0",
  id,
  error
})

const invalid = (id: RequestId | null, message: string) =>
  errorResponse(id, { code: errorCodes.invalidRequest, message: `Invalid request: ${message}` })

/** A message, or the response to a value that is none. */
type ReadMessage =
  | { readonly message: JsonRpcMessage; readonly refusal?: never }
  | { readonly message?: never; readonly refusal: JsonRpcResponse }

/** Reads one message. Neither version of the protocol has batches. */
export const readMessage = (value: unknown): ReadMessage => {
  if (Array.isArray(value)) return { refusal: invalid(null, "batches are not supported") }
  if (!isObject(value)) return { refusal: invalid(null, "expected an object") }
  const { id, method, params } = value
  const known = isRequestId(id) ? id : null
  if (value["jsonrpc"] !== "2.0") return { refusal: invalid(known, "jsonrpc must be \"2.0\"") }
  if (Object.hasOwn(value, "id") && known === null && method !== undefined) {
    return { refusal: invalid(null, "id must be a string or an integer") }
  }
  if (method !== undefined) {
    if (typeof method !== "string") return { refusal: invalid(known, "method must be a string") }
    if (params !== undefined && !isObject(params)) return { refusal: invalid(known, "params must be an object") }
    // The checks above are those of the type.
    return { message: value as unknown as JsonRpcMessage }
  }
  const hasResult = isObject(value["result"])
  return known !== null && hasResult !== isObject(value["error"])
    ? { message: value as unknown as JsonRpcMessage }
    : { refusal: invalid(known, "expected a method, a result or an error") }
}

/** Whether a message is a request, which gets a response. */
export const isRequest = (message: JsonRpcMessage): message is JsonRpcRequest => "method" in message && "id" in message

/** Whether a message is a notification, which gets none. */
export const isNotification = (message: JsonRpcMessage): message is JsonRpcNotification =>
  "method" in message && !("id" in message)

/** A message of the client for the RPC server. Its types have branded ids and closed sets of methods, which JSON-RPC has not. */
export const toRpc = (message: JsonRpcMessage): FromClientEncoded => {
  if ("method" in message) {
    return {
      _tag: "Request",
      id: "id" in message ? message.id as RpcRequestId : "" as unknown as RpcRequestId,
      tag: message.method,
      payload: message.params ?? {},
      headers: [],
      ...isNotification(message) ? { isNotification: true } : {}
    } as FromClientEncoded
  }
  return {
    _tag: "Exit",
    requestId: message.id,
    exit: "result" in message
      ? { _tag: "Success", value: message.result }
      : { _tag: "Failure", cause: [{ _tag: "Fail", error: message.error }] }
  } as unknown as FromClientEncoded
}

/** The error of a failure whose reason is not for clients. */
export const internalError: JsonRpcError = { code: errorCodes.internalError, message: "Internal error" }

const isError = (value: unknown): value is JsonRpcError =>
  isObject(value) && typeof value["code"] === "number" && typeof value["message"] === "string"

/** Only the members of an error: the rest of it is not for clients. */
const errorOf = (value: unknown): JsonRpcError =>
  isError(value)
    ? { code: value.code, message: value.message, ...value.data === undefined ? {} : { data: value.data } }
    : internalError

/** The form in which the RPC server sends notifications and requests of its own. Its types show the answers alone. */
interface SentByServer {
  readonly _tag: string
  readonly id: RequestId
  readonly tag: string
  readonly payload: JsonObject
  readonly isNotification?: boolean
}

/** A message of the RPC server for the client; null for those that JSON-RPC has no form for. */
export const fromRpc = (message: FromServerEncoded): JsonRpcMessage | null => {
  if (message._tag === "Exit") {
    const id = message.requestId as unknown as RequestId
    if (message.exit._tag === "Success") return { jsonrpc: "2.0", id, result: message.exit.value as JsonObject }
    const failure = message.exit.cause.find((reason) => reason._tag === "Fail")
    return errorResponse(id, errorOf(failure?.error))
  }
  const { _tag, id, isNotification, payload, tag } = message as unknown as SentByServer
  if (_tag !== "Request") return null
  const sent = { jsonrpc: "2.0", method: tag, params: payload } as const
  return isNotification === true ? sent : { ...sent, id }
}

/** Each request names its version, and nothing connects it with another. */
export const modern = "2026-07-28"

/** A client initializes first, and names no version in its messages. */
export const legacy = "2025-11-25"

/** The versions, latest first. */
const supportedVersions: ReadonlyArray<string> = [modern, legacy]

/** The member of `_meta` that names the version. */
const versionMember = "io.modelcontextprotocol/protocolVersion"

/** The member of `_meta` that tells what the client can do. Requests of 2026-07-28 must have it. */
export const capabilitiesMember = "io.modelcontextprotocol/clientCapabilities"

/** The metadata of a request. */
export const metadataOf = (params: JsonObject | undefined): JsonObject =>
  isObject(params?.["_meta"]) ? params["_meta"] : {}

/** Versions are dates. A client may send anything, such as a token, and an error repeats no other text. */
const isVersion = (text: unknown): text is string => typeof text === "string" && /^\d{4}-\d\d-\d\d$/.test(text)

/** The error of a request in another version. */
export const unsupportedVersion = (requested: unknown): JsonRpcFailure =>
  new JsonRpcFailure({
    code: errorCodes.unsupportedProtocolVersion,
    message: "Unsupported protocol version",
    data: { supported: supportedVersions, requested: isVersion(requested) ? requested : "malformed" }
  })

/** The version that a request names; null if it names none, as in version 2025-11-25. */
export const namedVersion = (params: JsonObject | undefined): unknown =>
  Object.hasOwn(metadataOf(params), versionMember) ? metadataOf(params)[versionMember] : null
