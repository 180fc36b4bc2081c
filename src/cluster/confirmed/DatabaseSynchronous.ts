/**
 * The setting `DATABASE_SYNCHRONOUS`.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import { InvalidSetting } from "../../node/settings/InvalidSetting.ts"

/**
 * Whether results count only once the synchronous standbys have them: `required`. `off` is the default. Fails with one sentence on any
 * other value, because a typing error must not switch it off.
 */
export const readMustReplicate = Effect.gen(function*() {
  const text = yield* Config.String("DATABASE_SYNCHRONOUS").pipe(Config.withDefault(""))
  switch (text.trim()) {
    case "required":
      return true
    case "off":
    case "":
      return false
    default:
      return yield* new InvalidSetting({ message: "DATABASE_SYNCHRONOUS must be required or off" })
  }
})
