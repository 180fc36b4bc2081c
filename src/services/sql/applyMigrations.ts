/**
 * Applies numbered SQL files, each once.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schedule from "effect/Schedule"
import * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import { isSqlError } from "effect/sql/SqlError"

/** The table of applied migrations. Other migration tools must not use it. */
export const migrationsTable = "financial_agents_gateway_migrations"

/** The package's `migrations` directory, next to `src` and `dist` alike. */
export const directory = new URL("../../../migrations/", import.meta.url)

const fileName = /^(\d+)_(.+)\.sql$/

/**
 * Quotes with a tag that the text does not contain.
 */
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

/** The migrations of this version, in order. */
export const files = Effect.gen(function*() {
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
const isLockTimeout = (error: unknown): boolean => {
  const cause = error instanceof Migrator.MigrationError ? error.cause : error
  return isSqlError(cause) && cause.reason._tag === "LockTimeoutError"
}

/** Two minutes, and the time of the attempts. */
const patience = { schedule: Schedule.spaced("1 second"), times: 120 }

/** Applies the missing migrations as `migrate` does, and tells which one starts. */
export const applyMigrations = (onStart: OnStart) =>
  Effect.map(
    Effect.retry(Migrator.make({})({ loader: makeLoader(onStart), table: migrationsTable }), {
      ...patience,
      while: isLockTimeout
    }),
    (applied): ReadonlyArray<string> => applied.map(([id, name]) => nameOf(id, name))
  )
