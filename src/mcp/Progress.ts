/** Progress of calls that take long (MCP, "Progress"). */
import * as McpSchema from "effect/ai/McpSchema"
import * as McpServer from "effect/ai/McpServer"
import * as Effect from "effect/Effect"

/** A call that waits reports at least this often, so that its host keeps it. In seconds. */
export const longestSilence = 10

/** Tells the host that the call still runs. Hosts that gave no progress token hear nothing. */
export const makeReport = Effect.gen(function*() {
  const server = yield* McpServer.McpServer
  return (progress: number, total: number, message: string) =>
    Effect.flatMap(McpSchema.McpRequestContext, ({ requestMetadata }) => {
      const token = requestMetadata?.["progressToken"]
      return typeof token === "string" || typeof token === "number"
        ? server.notifications["notifications/progress"]({ progressToken: token, progress, total, message })
        : Effect.void
    })
})

/** Reports the progress of the current call, in seconds. */
export type Report = Effect.Success<typeof makeReport>
