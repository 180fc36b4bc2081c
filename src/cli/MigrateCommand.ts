/**
 * `migrate`: applies the migrations to a database.
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import { MigrationPool } from "../node/Pools.ts"
import { migrate } from "../services/Migrations.ts"
import { print } from "./Output.ts"

export const migrateCommand = Command.make(
  "migrate",
  {},
  Effect.fn(function*() {
    yield* print({ applied: yield* Effect.provide(migrate, MigrationPool) })
  })
).pipe(Command.withDescription("Apply the missing migrations to the database"))
