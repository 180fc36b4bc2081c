/**
 * Refused reads as texts for a model, and as errors of JSON-RPC.
 */
import { adviceOnRefusal } from "./Advice.ts"
import type { ReadRefused } from "./AgentReads.ts"
import { errorCodes, type JsonRpcError } from "./JsonRpc.ts"
import { quotedJson } from "./QuotedText.ts"

/** A code of the range that MCP leaves to implementations. */
const readRefused = -32_000

/** The text of a refused read: the advice, and the problem as data. */
export const refusalText = ({ code, detail }: Pick<ReadRefused, "code" | "detail">): string =>
  quotedJson({ advice: adviceOnRefusal(code), problem: { code, detail } })

/**
 * The error of a read that the gateway refused. `data.code` is the code of the problem catalogue. Many hosts show a model the message
 * alone, so it has the advice.
 */
export const errorOfRefusal = (refused: ReadRefused): JsonRpcError => ({
  code: refused.code === "operation_not_found" || refused.code === "invalid_request"
    ? errorCodes.invalidParams
    : readRefused,
  message: refusalText(refused),
  data: { code: refused.code }
})
