/** The database schema: numbered SQL files, each applied once. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schedule from "effect/Schedule"
import * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import { isSqlError, type SqlError } from "effect/sql/SqlError"

/** The table of applied migrations. Other migration tools must not use it. */
export const migrationsTable = "financial_agents_gateway_migrations"

/** The package's `migrations` directory, next to `src` and `dist` alike. */
const directory = new URL("../../migrations/", import.meta.url)

const fileName = /^(\d+)_(.+)\.sql$/

const quote = (text: string, name: string): string => {
  let tag = `$${name}$`
  for (let n = 1; text.includes(tag); n++) tag = `$${name}${n}$`
  return tag + text + tag
}

/**
 * Runs all statements of a file. The extended protocol takes one statement at a time, and only a parser can separate them,
 * because function bodies hold semicolons. So EXECUTE gives the whole file to the parser of PostgreSQL.
 */
const runFile = (text: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql.unsafe(`DO ${quote(`BEGIN EXECUTE ${quote(text, "file")}; END`, "migration")}`).unprepared
  )

const files = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const root = yield* path.fromFileUrl(directory)
  const names = (yield* fs.readDirectory(root)).toSorted()
  return names.flatMap((name) => {
    const match = fileName.exec(name)
    return match === null ? [] : [{ id: Number(match[1]), name: match[2]!, path: path.join(root, name) }]
  })
}).pipe(Effect.orDie)

/** The full name of a migration, such as `0001_initial`. */
const nameOf = (id: number, name: string) => `${String(id).padStart(4, "0")}_${name}`

/** A migration that starts, and how many the run applies. */
export interface StartedMigration {
  readonly name: string
  /** From 1. */
  readonly number: number
  readonly total: number
}

type OnStart = (started: StartedMigration) => Effect.Effect<void>

/** The migrator loads all missing migrations before it runs the first one: the loads are the total. */
const makeLoader = (onStart: OnStart): Migrator.Loader<FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    let total = 0
    return (yield* files).map(({ id, name, path }): Migrator.ResolvedMigration => [
      id,
      name,
      Effect.sync(() => {
        const number = ++total
        return Effect.suspend(() => onStart({ name: nameOf(id, name), number, total })).pipe(
          Effect.andThen(fs.readFileString(path)),
          Effect.flatMap(runFile)
        )
      })
    ])
  })

/** A lock timeout: no migration was applied, and the next attempt may get the lock. */
/** Another session kept a lock for too long, or locked the same tables in another order. Nothing was applied. */
const isLocked = (error: unknown): boolean => {
  const cause = error instanceof Migrator.MigrationError ? error.cause : error
  return isSqlError(cause) && (cause.reason._tag === "LockTimeoutError" || cause.reason._tag === "DeadlockError")
}

/** Two minutes, and the time of the attempts. */
const patience = { schedule: Schedule.spaced("1 second"), times: 120 }

/** Applies the missing migrations as `migrate` does, and tells which one starts. */
export const applyMigrations = (onStart: OnStart) =>
  Effect.map(
    Effect.retry(Migrator.make({})({ loader: makeLoader(onStart), table: migrationsTable }), {
      ...patience,
      while: isLocked
    }),
    (applied): ReadonlyArray<string> => applied.map(([id, name]) => nameOf(id, name))
  )

/**
 * Applies the missing migrations in one transaction, and returns their names. If several processes start at once, one applies
 * them and the others wait. Connect as the owner of the schema. After a lock timeout (`lock_timeout` of the session) or a deadlock it tries
 * again, for two minutes.
 */
export const migrate: Effect.Effect<
  ReadonlyArray<string>,
  Migrator.MigrationError | SqlError,
  SqlClient.SqlClient | FileSystem.FileSystem | Path.Path
> = applyMigrations(() => Effect.void)

/**
 * Makes the check that the database has every migration of this version of the gateway. The check only asks the database, for
 * readiness probes.
 *
 * @internal
 */
export const makeIsMigrated: Effect.Effect<
  Effect.Effect<boolean, SqlError>,
  never,
  SqlClient.SqlClient | FileSystem.FileSystem | Path.Path
> = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const known = yield* files
  if (known.length === 0) return yield* Effect.die(new Error(`there are no migrations in ${directory.href}`))
  const latest = Math.max(...known.map(({ id }) => id))
  const present = sql.unsafe<{ readonly present: boolean }>("SELECT to_regclass($1) IS NOT NULL AS present", [
    migrationsTable
  ])
  const applied = sql.unsafe<{ readonly latest: number | null }>(
    `SELECT max(migration_id) AS latest FROM ${migrationsTable}`
  )
  return Effect.flatMap(present, ([row]) =>
    row?.present
      ? Effect.map(applied, ([row]) => (row?.latest ?? 0) >= latest)
      : Effect.succeed(false))
})
