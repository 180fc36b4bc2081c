/**
 * `mcp`: the MCP server over stdio, for agents on this machine. It reads a gateway elsewhere, and needs no database.
 */
import * as Cause from "effect/Cause"
import * as Command from "effect/cli/Command"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { mcpPath, ServerVersion } from "../domain/McpResource.ts"
import { cappedFetch } from "../http/exchangeLimits.ts"
import { loopbackHosts, parseBaseUrl } from "../http/OutgoingRequest.ts"
import { describeFailure } from "../http/RequestFailure.ts"
import { AgentReads } from "../mcp/AgentReads.ts"
import { McpConnections } from "../mcp/McpConnections.ts"
import * as RemoteReads from "../mcp/RemoteReads.ts"
import { serveStdio } from "../mcp/StdioConnection.ts"
import { manifest } from "../node/process/Invocation.ts"
import { CommandFailed } from "./Output.ts"

/** The gateway of `serve` on the same machine. */
const localGateway = "http://127.0.0.1:3000"

const failed = (message: string) => Effect.fail(new CommandFailed({ message }))

/** The messages do not repeat the URL, which may hold a password. */
const readUrl = Effect.flatMap(Config.String("GATEWAY_URL").pipe(Config.withDefault("")), (text) => {
  const baseUrl = parseBaseUrl(text === "" ? localGateway : text)
  if (baseUrl === null) {
    return failed("GATEWAY_URL must be a URL such as https://gateway.example, without user, query and fragment")
  }
  const { hostname, pathname, protocol } = new URL(baseUrl)
  if (pathname.endsWith(mcpPath)) return failed(`GATEWAY_URL must be the base URL of the gateway, without ${mcpPath}`)
  return protocol === "https:" || loopbackHosts.has(hostname)
    ? Effect.succeed(baseUrl)
    : failed("GATEWAY_URL must be https, or http on 127.0.0.1, [::1] or localhost: others could read the access token")
})

const readToken = Effect.flatMap(
  Config.Redacted("GATEWAY_TOKEN").pipe(Config.withDefault(Redacted.make(""))),
  (token) => {
    const text = Redacted.value(token)
    if (text === "") return failed("GATEWAY_TOKEN is missing: set it to an access token of the gateway")
    if (text.startsWith("${")) {
      return failed("GATEWAY_TOKEN names a variable: the host did not put its value in its place")
    }
    return /^[\x21-\x7e]+$/.test(text)
      ? Effect.succeed(token)
      : failed("GATEWAY_TOKEN is no access token: give the token alone, without Bearer, blanks or other characters")
  }
)

/** GATEWAY_URL, by default that of `serve` on this machine, and GATEWAY_TOKEN. */
export const gatewayAccess = Effect.all({ baseUrl: readUrl, accessToken: readToken })

/** Most bytes of a response: the longest page of operations has less than a tenth of it. */
const maxResponse = 8 * 1024 * 1024

/** Logs what no result may tell the agent, such as the code of a failed TLS handshake. */
const logFailure = (baseUrl: string) => (cause: Cause.Cause<unknown>) => {
  const isLate = cause.reasons.some((reason) => Cause.isFailReason(reason) && Cause.isTimeoutError(reason.error))
  const reason = isLate ? "no complete answer in time" : describeFailure(cause)
  return Effect.annotateLogs(Effect.logWarning("No answer of the gateway"), { url: baseUrl, reason })
}

/** Reads once, so that a wrong setting shows at the start. */
const checkAccess = Effect.flatMap(AgentReads, (reads) => reads.list({ page_size: 1 })).pipe(
  Effect.asVoid,
  Effect.catch(({ code, detail }) =>
    // `logFailure` has logged it.
    code === "gateway_unreachable" || code === "response_contract_failed"
      ? Effect.void
      : Effect.annotateLogs(Effect.logWarning("The gateway refuses to read"), { code, detail })
  )
)

export const mcp = Command.make(
  "mcp",
  {},
  Effect.fnUntraced(function*() {
    const access = yield* gatewayAccess
    const options = { ...access, onFailure: logFailure(access.baseUrl) }
    const reads = (patience?: number) =>
      Layer.provide(
        RemoteReads.layer({ ...options, ...patience === undefined ? {} : { patience } }),
        FetchHttpClient.layer
      )
    const serving = Effect.flatMap(McpConnections, ({ open }) => serveStdio((send) => open("stdio", send)))
    const connections = Layer.provide(McpConnections.layer, Layer.succeed(ServerVersion, manifest.version))
    yield* Effect.forkChild(
      Effect.provide(checkAccess, reads(0)).pipe(
        Effect.provideService(FetchHttpClient.Fetch, cappedFetch(maxResponse))
      )
    )
    yield* Effect.provide(serving, Layer.merge(connections, reads())).pipe(
      Effect.provideService(FetchHttpClient.Fetch, cappedFetch(maxResponse)),
      // Input that nothing reads any more would keep the process running.
      Effect.ensuring(Effect.sync(() => process.stdin.destroy()))
    )
  })
).pipe(
  Command.withDescription(
    "Serve agents on this machine over stdio (MCP). Reads the gateway at GATEWAY_URL (default: http://127.0.0.1:3000; "
      + "https for other machines) with the access token GATEWAY_TOKEN. It uses no database"
  ),
  Command.withExamples([
    { command: "financial-agents-gateway mcp", description: "An MCP host starts it, with both variables" }
  ])
)
