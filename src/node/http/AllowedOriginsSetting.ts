/**
 * The setting `MCP_ALLOWED_ORIGINS`.
 */
import * as Layer from "effect/Layer"
import { AllowedOrigins } from "../../server/agents/AllowedOrigins.ts"
import { readList } from "./readList.ts"

const isOrigin = (text: string): boolean => {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && url.origin === text
}

/** The origins of `MCP_ALLOWED_ORIGINS`, separated by commas. Fails with one sentence if one of them is no origin. */
export const layerAllowedOrigins = Layer.effect(
  AllowedOrigins,
  readList("MCP_ALLOWED_ORIGINS", isOrigin, "origins, separated by commas, such as https://agents.example")
)
