/**
 * The gateway that the environment names, and the access token for it.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { mcpPath } from "../../domain/McpResource.ts"
import { loopbackHosts, parseBaseUrl } from "../../http/OutgoingRequest.ts"
import { CommandFailed } from "../Output.ts"

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
