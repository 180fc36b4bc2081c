/**
 * The setting `MCP_ALLOWED_ORIGINS`.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { InvalidSetting } from "../../domain/InvalidSetting.ts"
import { AllowedOrigins } from "../../server/agents/AllowedOrigins.ts"

const isOrigin = (text: string): boolean => {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && url.origin === text
}

/** The origins of `MCP_ALLOWED_ORIGINS`, separated by commas. Fails with one sentence if one of them is no origin. */
export const layerAllowedOrigins = Layer.unwrap(Effect.gen(function*() {
  const text = yield* Config.option(Config.String("MCP_ALLOWED_ORIGINS"))
  if (Option.isNone(text) || text.value.trim() === "") return Layer.empty
  const origins = text.value.split(",").map((origin) => origin.trim())
  if (!origins.every(isOrigin)) {
    return yield* new InvalidSetting({
      message: "MCP_ALLOWED_ORIGINS must be origins, separated by commas, such as https://agents.example"
    })
  }
  return Layer.succeed(AllowedOrigins, origins)
}))
