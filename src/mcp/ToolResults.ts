/**
 * Answers of the tools as results of `tools/call`.
 */
import * as Schema from "effect/Schema"
import type { JsonObject } from "./JsonRpc.ts"
import { OperationAnswer } from "./OperationAnswer.ts"
import { quotedJson } from "./QuotedText.ts"

const encode = Schema.encodeSync(OperationAnswer)

/**
 * The `CallToolResult` for an operation. A failed operation is no error of the tool. Throws if the operation breaks the contract:
 * it must not be sent.
 */
export const toolResultOf = (answer: OperationAnswer): JsonObject => {
  const structuredContent = encode(answer)
  return {
    content: [{ type: "text", text: quotedJson(structuredContent) }],
    structuredContent,
    isError: false
  }
}
