/**
 * The database of a command: the one that DATABASE_URL names, or else an embedded PostgreSQL. `Pools` connects to it.
 */
import type * as PgClient from "@effect/sql-pg/PgClient"
import type * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { readMustReplicate } from "../../cluster/confirmed/DatabaseSynchronous.ts"
import { readStandbyUrl } from "../../cluster/standbys/DatabaseReadUrl.ts"
import { LocalPostgres, type LocalPostgresError } from "../embedded/LocalPostgres.ts"
import { InvalidSetting } from "../settings/InvalidSetting.ts"

export { InvalidSetting }

/** The database settings of the command line and the environment. */
export interface DatabaseOptions {
  readonly databaseUrl: Option.Option<Redacted.Redacted<string>>
  readonly dataDir: string
}

/** The embedded PostgreSQL has no standby. */
const refuseEmbedded = Effect.gen(function*() {
  const mustReplicate = yield* readMustReplicate
  if (mustReplicate) {
    return yield* new InvalidSetting({ message: "DATABASE_SYNCHRONOUS is required without DATABASE_URL: set both" })
  }
  yield* readStandbyUrl({ isEmbedded: true, mustReplicate })
})

const named = Effect.fnUntraced(function*(url: Redacted.Redacted) {
  const mustReplicate = yield* readMustReplicate
  const standbyUrl = yield* readStandbyUrl({ isEmbedded: false, mustReplicate })
  return {
    isEmbedded: false,
    dataDirectory: null,
    connection: { url },
    mustReplicate,
    ...standbyUrl === null ? {} : { standbys: { url: standbyUrl } }
  }
})

/** How to connect to the database. An embedded database runs for as long as this service is in scope. */
export class Database extends Context.Service<Database, {
  readonly isEmbedded: boolean
  /** The directory of the embedded database; null when the database is not embedded. */
  readonly dataDirectory: string | null
  readonly connection: PgClient.PgPoolConfig
  /** Whether results count only once the synchronous standbys have them (`DATABASE_SYNCHRONOUS`). By default they count at once. */
  readonly mustReplicate?: boolean
  /** How to connect to standbys that serve reads, as the reader (`DATABASE_READ_URL`). Needs `mustReplicate`. Default: none. */
  readonly standbys?: PgClient.PgPoolConfig
}>()("financial-agents-gateway/node/postgres/Database") {
  static readonly layer = (
    options: DatabaseOptions
  ): Layer.Layer<Database, LocalPostgresError | InvalidSetting | Config.ConfigError> =>
    Option.match(options.databaseUrl, {
      onSome: (url) => Layer.effect(Database, named(url)),
      onNone: () =>
        Layer.effect(
          Database,
          Effect.map(LocalPostgres, ({ database, dataDirectory, port, socketDirectory, username }) => ({
            isEmbedded: true,
            dataDirectory,
            connection: { host: socketDirectory, port, username, database }
          }))
        ).pipe(
          Layer.provide(LocalPostgres.layer({ dataDirectory: options.dataDir })),
          Layer.provide(Layer.effectDiscard(refuseEmbedded))
        )
    })
}
