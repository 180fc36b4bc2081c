/**
 * Registers tools with Effect's MCP server.
 */
import {
  CallToolResult,
  InvalidParams,
  type McpRequestContext,
  Tool as McpTool,
  type ToolJson
} from "effect/ai/McpSchema"
import { McpServer } from "effect/ai/McpServer"
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { strict } from "../domain/InvalidMember.ts"

/** The JSON Schema of arguments or of a result, as `tools/list` shows it: an object at its root, and no reference. */
export const jsonSchemaOf = (
  schema: Schema.Constraint,
  onExcessProperty: "error" | "ignore"
): typeof ToolJson.Type => {
  const { definitions, schema: root } = Schema.toJsonSchemaDocument(schema, {
    onExcessProperty,
    referencePolicy: ({ ast, identifier }) => ast === schema.ast ? undefined : identifier
  })
  return (Object.keys(definitions).length === 0 ? root : { ...root, $defs: definitions }) as typeof ToolJson.Type
}

/** The result of a call that failed. The model reads the text. */
export const failedCall = (text: string): CallToolResult =>
  new CallToolResult({ content: [{ type: "text", text }], isError: true })

/** As in Effect's server, whose tools of applications have the same text. */
const internalText = "Tool execution failed due to an internal server error."

const descriptorOf = (tool: Tool.Any): McpTool => {
  const title = Context.getOrUndefined(tool.annotations, Tool.Title)
  return new McpTool({
    name: tool.name,
    title,
    description: Tool.getDescription(tool),
    inputSchema: jsonSchemaOf(tool.parametersSchema, "error"),
    outputSchema: jsonSchemaOf(tool.successSchema, "ignore"),
    annotations: {
      title,
      readOnlyHint: Context.get(tool.annotations, Tool.Readonly),
      destructiveHint: Context.get(tool.annotations, Tool.Destructive),
      idempotentHint: Context.get(tool.annotations, Tool.Idempotent),
      openWorldHint: Context.get(tool.annotations, Tool.OpenWorld)
    }
  })
}

/** A handler of the toolkit, whose types are those of the tool. */
type Handler = (parameters: unknown, context: unknown) => Effect.Effect<unknown, { readonly message: string }>

const makeHandle = (tool: Tool.Any, handler: Handler) => {
  const decode = Schema.decodeUnknownEffect(tool.parametersSchema as Schema.Codec<unknown>, strict)
  const encode = Schema.encodeUnknownEffect(tool.successSchema as Schema.Codec<unknown>)
  const invalid = ({ message }: Schema.SchemaError) =>
    new InvalidParams({ message: `Invalid parameters for tool '${tool.name}': ${message}` })
  const run = (parameters: unknown) =>
    handler(parameters, {}).pipe(
      Effect.flatMap((result) => Effect.orDie(encode(result))),
      // `completeResponse` writes the text, which is the structured content.
      Effect.map((structuredContent) =>
        new CallToolResult({ content: [], structuredContent: structuredContent as object, isError: false })
      ),
      Effect.catch(({ message }) => Effect.succeed(failedCall(message))),
      Effect.catchCause((cause) =>
        Cause.hasInterrupts(cause)
          ? Effect.failCause(cause)
          : Effect.as(Effect.logError("Tool failed with a defect", cause), failedCall(internalText))
      )
    )
  return (args: unknown) =>
    Effect.andThen(
      Effect.annotateCurrentSpan({ tool: tool.name, parameters: args }),
      Effect.flatMap(Effect.mapError(decode(args ?? {}), invalid), run)
    )
}

/**
 * Registers the tools of a toolkit. A call decodes its arguments and encodes its result once, in the fiber of the call.
 * `McpServer.toolkit` of Effect runs each call as a stream with a queue and a fiber, which doubles the cost of a call.
 */
export const registerTools = Effect.fnUntraced(
  function*<Tools extends Record<string, Tool.Any>>(
    { tools }: Toolkit.Toolkit<Tools>,
    handlers: Toolkit.HandlersFrom<Tools>
  ) {
    const server = yield* McpServer
    for (const tool of Object.values(tools)) {
      // The type of a toolkit's handlers has a member for each tool, and no index by name.
      const handler = (handlers as unknown as Record<string, Handler>)[tool.name]!
      yield* server.addTool({
        tool: descriptorOf(tool),
        annotations: tool.annotations,
        // The request has the services of the tools, which the types of the server cannot know.
        handle: makeHandle(tool, handler) as (args: unknown) => Effect.Effect<
          CallToolResult,
          InvalidParams,
          McpRequestContext
        >
      })
    }
  }
)
