/**
 * `migrate`: applies the migrations to a database.
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { MigrationPool } from "../../node/postgres/Pools.ts"
import { applyMigrations } from "../../services/sql/applyMigrations.ts"
import { print } from "../Output.ts"
import { withProgress } from "../screen/ProgressBar.ts"

export const migrateCommand = Command.make(
  "migrate",
  {},
  Effect.fn(function*() {
    const applied = yield* withProgress(
      { label: "Migrating", unit: "migrations", total: null },
      (progress) =>
        applyMigrations(({ name, number, total }) =>
          Effect.sync(() => progress.update(number - 1, { total, step: name }))
        )
    )
    yield* print({ applied })
  }, Effect.provide(MigrationPool))
).pipe(Command.withDescription("Apply the missing migrations to the database"))
