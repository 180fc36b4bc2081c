/** Tools as Effect's MCP server shows and calls them. */
import {
  CallToolResult,
  InvalidParams,
  type McpRequestContext,
  Tool as McpTool,
  type ToolJson
} from "effect/ai/McpSchema"
import { McpServer } from "effect/ai/McpServer"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { strict } from "../domain/InvalidMember.ts"
import type { AgentReads, ReadRefused } from "./AgentReads.ts"
import { refusalText } from "./OperationAnswer.ts"
import { makeReport, type Report } from "./Progress.ts"

/** What hosts and models see of a tool. */
interface Described {
  readonly title: string
  readonly description: string
  readonly parameters: Schema.Constraint
  readonly success: Schema.Constraint
}

/** The JSON Schema of arguments or of a result: an object at its root, and no reference. */
const jsonSchemaOf = (schema: Schema.Constraint, onExcessProperty: "error" | "ignore"): typeof ToolJson.Type => {
  const { definitions, schema: root } = Schema.toJsonSchemaDocument(schema, {
    onExcessProperty,
    referencePolicy: ({ ast, identifier }) => ast === schema.ast ? undefined : identifier
  })
  return (Object.keys(definitions).length === 0 ? root : { ...root, $defs: definitions }) as typeof ToolJson.Type
}

/** The tool as `tools/list` shows it. A host may call a tool that only reads without asking the human. */
export const describeTool = (
  name: string,
  { description, parameters, success, title }: Described,
  onlyReads: boolean
): McpTool =>
  new McpTool({
    name,
    title,
    description,
    inputSchema: jsonSchemaOf(parameters, "error"),
    outputSchema: jsonSchemaOf(success, "ignore"),
    annotations: {
      title,
      readOnlyHint: onlyReads,
      destructiveHint: !onlyReads,
      idempotentHint: true,
      openWorldHint: !onlyReads
    }
  })

/** The result of a call that failed. The model reads the text. */
export const failedCall = (text: string): CallToolResult =>
  new CallToolResult({ content: [{ type: "text", text }], isError: true })

/** As in Effect's server, whose tools of applications have the same text. */
const internalText = "Tool execution failed due to an internal server error."

/** A tool that only reads. */
export interface ReadTool<Parameters extends Schema.Constraint, Success extends Schema.Constraint> extends Described {
  readonly parameters: Parameters
  readonly success: Success
  readonly handle: (
    parameters: Parameters["Type"],
    report: Report
  ) => Effect.Effect<Success["Type"], ReadRefused, AgentReads | McpRequestContext>
}

/** A tool in a list of several, whose types differ. */
type AnyReadTool = ReadTool<Schema.Codec<unknown>, Schema.Codec<unknown>>

/** Declares a tool that only reads. */
export const readTool = <Parameters extends Schema.Constraint, Success extends Schema.Constraint>(
  tool: ReadTool<Parameters, Success>
  // `makeHandle` decodes the arguments by this tool's own schema before its handler gets them.
) => tool as unknown as AnyReadTool

const makeHandle = (name: string, { handle, parameters, success }: AnyReadTool, report: Report) => {
  const decode = Schema.decodeUnknownEffect(parameters, strict)
  const encode = Schema.encodeUnknownEffect(success)
  const invalid = ({ message }: Schema.SchemaError) =>
    new InvalidParams({ message: `Invalid parameters for tool '${name}': ${message}` })
  const run = (decoded: unknown) =>
    handle(decoded, report).pipe(
      Effect.flatMap((answer) => Effect.orDie(encode(answer))),
      // `completeResponse` writes the text, which is the structured content.
      Effect.map((structuredContent) =>
        new CallToolResult({ content: [], structuredContent: structuredContent as object, isError: false })
      ),
      Effect.catch((refused) => Effect.succeed(failedCall(refusalText(refused)))),
      Effect.catchCause((cause) =>
        Cause.hasInterrupts(cause)
          ? Effect.failCause(cause)
          : Effect.as(Effect.logError("Tool failed with a defect", cause), failedCall(internalText))
      )
    )
  return (args: unknown) => Effect.flatMap(Effect.mapError(decode(args ?? {}), invalid), run)
}

/**
 * Registers tools by their names. A call decodes its arguments and encodes its result once, in the fiber of the call.
 * `McpServer.toolkit` of Effect runs each call as a stream with a queue and a fiber, which doubles the cost of a call.
 */
export const registerTools = Effect.fnUntraced(function*(tools: Readonly<Record<string, AnyReadTool>>) {
  const server = yield* McpServer
  const report = yield* makeReport
  for (const [name, tool] of Object.entries(tools)) {
    yield* server.addTool({
      tool: describeTool(name, tool, true),
      annotations: Context.empty(),
      // The request has the `AgentReads`, which the types of the server cannot know.
      handle: makeHandle(name, tool, report) as (args: unknown) => Effect.Effect<
        CallToolResult,
        InvalidParams,
        McpRequestContext
      >
    })
  }
})
