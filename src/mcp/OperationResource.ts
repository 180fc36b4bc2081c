/** Operations as resources, `operation://{id}`, in the form that `get_operation` answers with. */
import * as McpSchema from "effect/ai/McpSchema"
import * as McpServer from "effect/ai/McpServer"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { isOperationId } from "../domain/Operation.ts"
import { AgentReads, type ReadRefused } from "./AgentReads.ts"
import { answerOf, OperationAnswer, refusalText } from "./OperationAnswer.ts"
import { quotedJson } from "./QuotedText.ts"

const prefix = "operation://"

const template = McpSchema.ResourceTemplate.make({
  uriTemplate: `${prefix}{id}`,
  name: "operation",
  title: "Operation",
  description: "One operation as it is now, with the advice on its state.",
  mimeType: "application/json"
})

const encodeAnswer = Schema.encodeEffect(OperationAnswer)

const refuse = (refused: ReadRefused) =>
  Effect.fail(
    refused.code === "operation_not_found"
      ? new McpSchema.InvalidParams({ message: refusalText(refused) })
      : new McpSchema.InternalError({ message: refusalText(refused) })
  )

const read = Effect.fnUntraced(function*(uri: string) {
  const id = uri.slice(prefix.length)
  if (!uri.startsWith(prefix) || !isOperationId(id)) {
    return yield* new McpSchema.InvalidParams({ message: "Expected operation:// and a lower-case UUIDv7" })
  }
  const reads = yield* AgentReads
  const operation = yield* Effect.catch(reads.get(id), refuse)
  const text = quotedJson(yield* Effect.orDie(encodeAnswer(yield* answerOf(operation))))
  return McpSchema.ReadResourceResult.make({ contents: [{ uri, mimeType: "application/json", text }] })
})

/** Registers the resource template. Its reads need the `AgentReads` of the request. */
export const OperationResource: Layer.Layer<never, never, McpServer.McpServer> = Layer.effectDiscard(
  Effect.flatMap(McpServer.McpServer, (server) =>
    server.addResourceTemplate({
      template,
      annotations: Context.empty(),
      // A colon of the scheme, doubled for the router.
      routerPath: "operation:://:0",
      completions: {},
      // The fiber of the request has the service.
      handle: (uri) => read(uri) as Effect.Effect<McpSchema.ReadResourceResult, McpSchema.InvalidParams>
    }))
)
