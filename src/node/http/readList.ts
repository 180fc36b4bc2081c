import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import { InvalidSetting } from "../../domain/InvalidSetting.ts"

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
