/** The database of a command: the one that DATABASE_URL names, or else an embedded PostgreSQL. `Pools` connects to it. */
import type * as PgClient from "@effect/sql-pg/PgClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { LocalPostgres, type LocalPostgresError } from "../embedded/LocalPostgres.ts"

/** The database settings of the command line and the environment. */
export interface DatabaseOptions {
  readonly databaseUrl: Option.Option<Redacted.Redacted<string>>
  readonly dataDir: string
  /** Fails and creates nothing if `dataDir` has no database yet. False by default. */
  readonly mustExist?: boolean
}

/** How to connect to the database. An embedded database runs for as long as this service is in scope. */
export class Database extends Context.Service<Database, {
  readonly isEmbedded: boolean
  /** The directory of the embedded database; null when the database is not embedded. */
  readonly dataDirectory: string | null
  readonly connection: PgClient.PgPoolConfig
  /** The setting with the URL, for errors of its connections. None: the database is embedded. */
  readonly setting?: string
}>()("financial-agents-gateway/node/postgres/Database") {
  static readonly layer = (
    options: DatabaseOptions
  ): Layer.Layer<Database, LocalPostgresError> =>
    Option.match(options.databaseUrl, {
      onSome: (url) =>
        Layer.succeed(Database, {
          isEmbedded: false,
          dataDirectory: null,
          connection: { url },
          setting: "DATABASE_URL"
        }),
      onNone: () =>
        Layer.effect(
          Database,
          Effect.map(LocalPostgres, ({ database, dataDirectory, port, socketDirectory, username }) => ({
            isEmbedded: true,
            dataDirectory,
            connection: { host: socketDirectory, port, username, database }
          }))
        ).pipe(Layer.provide(LocalPostgres.layer({
          dataDirectory: options.dataDir,
          mustExist: options.mustExist ?? false
        })))
    })
}
