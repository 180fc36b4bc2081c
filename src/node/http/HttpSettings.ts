/**
 * Settings of the HTTP server that are read from the environment: quotas, trusted proxies, and the origins that may call `/mcp`.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { InvalidSetting } from "../../domain/InvalidSetting.ts"
import { AllowedOrigins } from "../../server/agents/AllowedOrigins.ts"
import { trustedProxies } from "../../server/gate/ClientAddress.ts"
import { layerRateLimits, type Quota } from "../../server/gate/RateLimits.ts"

/** The entries of a variable, separated by commas; none if it is not set. Fails with one sentence if one of them is invalid. */
export const readList = Effect.fnUntraced(function*(
  name: string,
  isValid: (entry: string) => boolean,
  rule: string
): Effect.fn.Return<ReadonlyArray<string>, InvalidSetting | Config.ConfigError> {
  const text = yield* Config.String(name).pipe(Config.withDefault(""))
  if (text.trim() === "") return []
  const entries = text.split(",").map((entry) => entry.trim())
  if (entries.every(isValid)) return entries
  return yield* new InvalidSetting({ message: `${name} must be ${rule}` })
})

/** Length of each window, in seconds. */
const windows = { s: 1, m: 60, h: 3600, d: 86_400 } as const

const quotaPattern = /^([1-9][0-9]{0,5})\/([smhd])(?:;burst=([1-9][0-9]{0,5}))?$/u

const parse = (text: string): Quota => {
  const [, requests, unit, burst] = quotaPattern.exec(text)!
  return {
    requests: Number(requests),
    window: windows[unit as keyof typeof windows],
    burst: Number(burst ?? requests)
  }
}

/** Requests in each second, minute, hour or day. `burst` may come at once, by default as many as in the window. */
export const RateLimit = Schema.String.check(
  Schema.isPattern(quotaPattern, { expected: "a quota such as 100/s, 100/s;burst=200 or 5000/h" })
).pipe(
  Schema.decodeTo(
    Schema.Struct({ requests: Schema.Int, window: Schema.Int, burst: Schema.Int }),
    SchemaTransformation.transform({
      decode: parse,
      encode: ({ burst, requests, window }) => {
        const [unit] = Object.entries(windows).find(([, seconds]) => seconds === window) ?? ["s"]
        return `${requests}/${unit};burst=${burst}`
      }
    })
  )
)

const isProxy = (text: string): boolean => {
  try {
    trustedProxies([text])
    return true
  } catch {
    return false
  }
}

/** The trusted proxies, as addresses or CIDR blocks. Fails with one sentence on anything else. */
export const readTrustedProxies = readList(
  "TRUSTED_PROXIES",
  isProxy,
  "IP addresses or CIDR blocks, separated by commas, such as 127.0.0.1,10.1.0.0/16"
)

/** The quotas, if there are any. Fails with one sentence on trusted proxies that are no addresses. */
export const layerRateLimit = (quota: Option.Option<Quota>) =>
  Option.isNone(quota)
    ? Layer.empty
    : Layer.unwrap(
      Effect.map(
        readTrustedProxies,
        (trustedProxies) => layerRateLimits({ quota: quota.value, trustedProxies })
      )
    )

/** The quotas of `RATE_LIMIT`. Without it, there are none. */
export const layerRateLimitOfEnvironment = Layer.unwrap(
  Effect.map(Config.option(Config.schema(RateLimit, "RATE_LIMIT")), layerRateLimit)
)

const isOrigin = (text: string): boolean => {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && url.origin === text
}

/** The origins of `MCP_ALLOWED_ORIGINS`, separated by commas. Fails with one sentence if one of them is no origin. */
export const layerAllowedOrigins = Layer.effect(
  AllowedOrigins,
  readList("MCP_ALLOWED_ORIGINS", isOrigin, "origins, separated by commas, such as https://agents.example")
)
