/** What the tools answer: operations in the form of the contract after the advice on them, and refused reads. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Operation } from "../domain/Operation.ts"
import { adviceOn, adviceOnRefusal } from "./Advice.ts"
import type { ReadRefused } from "./AgentReads.ts"
import { errorCodes, type JsonObject, type JsonRpcError } from "./JsonRpc.ts"
import { quotedJson, quoteFailure } from "./QuotedText.ts"

export const AdviceText = Schema.String.annotate({
  description: "What the state means, and what to do and not to do next."
})

export const ReadAgain = Schema.NullOr(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))).annotate({
  description: "Seconds to wait before the next read; null if nothing can change any more."
})

/** One operation with the advice on it. */
export const OperationAnswer = Schema.Struct({
  advice: AdviceText,
  read_again_in_seconds: ReadAgain,
  operation: Operation
}).annotate({ identifier: "OperationAnswer" })
export type OperationAnswer = typeof OperationAnswer.Type

/** The answer for an operation as it is now. */
export const answerOf = (operation: Operation): Effect.Effect<OperationAnswer> =>
  Effect.map(DateTime.now, (now) => ({ ...adviceOn(operation, now), operation: quoteFailure(operation) }))

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
