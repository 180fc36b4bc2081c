/** The origins whose web pages may call the endpoint for agents. */
import * as Context from "effect/Context"

/**
 * Origins whose web pages may call the endpoint, such as `https://agents.example`. Programs send no `Origin`. Default: none but the
 * gateway's own.
 */
export const AllowedOrigins = Context.Reference<ReadonlyArray<string>>(
  "financial-agents-gateway/server/agents/AllowedOrigins",
  { defaultValue: () => [] }
)
