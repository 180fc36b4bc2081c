/**
 * The setting `DATABASE_READ_URL`.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { readDatabaseUrl } from "../../node/postgres/driver/databaseUrl.ts"
import { InvalidSetting } from "../../node/settings/InvalidSetting.ts"

const invalid = (message: string) => new InvalidSetting({ message: `DATABASE_READ_URL ${message}` })

/**
 * The URL of the standbys that serve reads; null without the setting. Fails if the results of the database need no confirmation: only
 * that proves that a standby has what it should.
 */
export const readStandbyUrl = Effect.fnUntraced(function*(
  database: { readonly isEmbedded: boolean; readonly mustReplicate: boolean }
) {
  const url = Option.getOrNull(yield* Config.option(Config.Redacted("DATABASE_READ_URL")))
  if (url === null || Redacted.value(url).trim() === "") return null
  if (database.isEmbedded) return yield* invalid("is set without DATABASE_URL: set both")
  if (!database.mustReplicate) return yield* invalid("needs DATABASE_SYNCHRONOUS=required")
  return yield* Effect.try({
    try: () => {
      readDatabaseUrl(Redacted.value(url), "standby")
      return url
    },
    catch: (error) => invalid(`is invalid: ${error instanceof Error ? error.message : "it cannot be read"}`)
  })
})
