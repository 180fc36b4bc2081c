/**
 * Refused reads as errors of JSON-RPC.
 */
import type { ReadRefused } from "./AgentReads.ts"
import { errorCodes, type JsonRpcError } from "./JsonRpc.ts"

/** A code of the range that MCP leaves to implementations. */
const readRefused = -32_000

/** The error of a read that the gateway refused. `data.code` is the code of the problem catalogue. */
export const errorOfRefusal = ({ code, detail }: ReadRefused): JsonRpcError => ({
  code: code === "operation_not_found" || code === "invalid_request" ? errorCodes.invalidParams : readRefused,
  message: detail,
  data: { code }
})
