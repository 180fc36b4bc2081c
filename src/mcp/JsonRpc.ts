/**
 * The messages of JSON-RPC 2.0 and the error codes of the Model Context Protocol (MCP), as values.
 */
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
