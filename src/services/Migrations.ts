/**
 * The database schema: numbered SQL files, each applied once.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import type * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { applyMigrations, directory, files, migrationsTable } from "./sql/applyMigrations.ts"

export { migrationsTable }

/**
 * Applies the missing migrations in one transaction, and returns their names. If several processes start at once, one applies
 * them and the others wait. Connect as the owner of the schema. After a lock timeout (`lock_timeout` of the session) it tries
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
