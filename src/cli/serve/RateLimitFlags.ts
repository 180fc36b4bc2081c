/**
 * The quotas of `serve`: `--rate-limit`.
 */
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import { RateLimit } from "../../node/http/RateLimitSettings.ts"

export const rateLimitFlag = Flag.String("rate-limit").pipe(
  Flag.withDescription("Quota of each client and subject, such as 100/s;burst=200 (RATE_LIMIT); none by default"),
  Flag.withFallbackConfig(Config.String("RATE_LIMIT")),
  Flag.withSchema(RateLimit),
  Flag.optional
)
