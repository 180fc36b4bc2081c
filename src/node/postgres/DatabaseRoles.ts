/** The database roles of one process: docs/postgresql.md describes them. */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { InvalidSetting } from "../../domain/InvalidSetting.ts"
import { Database } from "./Database.ts"

/** A role of the database, and the environment variable with the URL that connects as it. */
const variables = {
  owner: "OWNER_DATABASE_URL",
  reader: "READER_DATABASE_URL",
  provisioner: "PROVISIONER_DATABASE_URL",
  writer: "WRITER_DATABASE_URL"
} as const

type DatabaseRole = keyof typeof variables

/** URLs of the same database, one for each role. */
export type DatabaseUrls = { readonly [Role in DatabaseRole]?: Redacted.Redacted<string> }

/** The URL of a role: the given one, or that of the environment. None if both are missing. */
export const readRoleUrl = Effect.fnUntraced(function*(role: DatabaseRole, urls: DatabaseUrls = {}) {
  const url = urls[role] ?? Option.getOrUndefined(yield* Config.option(Config.Redacted(variables[role])))
  return url === undefined || Redacted.value(url).trim() === "" ? Option.none() : Option.some(url)
})

/**
 * The database as a role sees it. Without a URL of its own, the role connects as `Database` does. Fails if there is a URL
 * and the database is embedded, because the two would be different databases.
 */
export const databaseAs = (role: DatabaseRole, urls?: DatabaseUrls) =>
  Layer.effect(
    Database,
    Effect.gen(function*() {
      const database = yield* Database
      const url = yield* readRoleUrl(role, urls)
      const applicationName = `financial-agents-gateway ${role}`
      if (Option.isNone(url)) return { ...database, connection: { ...database.connection, applicationName } }
      if (database.isEmbedded) {
        return yield* new InvalidSetting({ message: `${variables[role]} is set without DATABASE_URL: set both` })
      }
      return { ...database, connection: { url: url.value, applicationName }, setting: variables[role] }
    })
  )
