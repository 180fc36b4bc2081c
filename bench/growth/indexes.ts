/** The indexes that a seed builds after its rows: row by row, a large ledger would take hours. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

interface Definition {
  readonly owner: string
  readonly name: string
  readonly definition: string
}

const indexesOf = `
  SELECT c.relname AS name, 'operations' AS owner, pg_get_indexdef(c.oid) AS definition
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
  WHERE i.indrelid = 'operations'::regclass AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = c.oid)`

/** Not the primary key of operations, which the foreign key of the history needs, and which the seed fills in order. */
const constraintsOf = `
  SELECT conname AS name, conrelid::regclass::text AS owner, pg_get_constraintdef(oid) AS definition
  FROM pg_constraint
  WHERE conrelid = 'operations'::regclass AND contype = 'u' OR conrelid = 'operation_history'::regclass AND contype = 'p'`

/** Runs the effect without most indexes of the operations and their history, and builds them again. */
export const withoutIndexes = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const indexes = yield* sql.unsafe<Definition>(indexesOf)
    const constraints = yield* sql.unsafe<Definition>(constraintsOf)
    for (const { name, owner } of constraints) {
      yield* sql.unsafe(`ALTER TABLE ${owner} DROP CONSTRAINT ${name}`).unprepared
    }
    for (const { name } of indexes) yield* sql.unsafe(`DROP INDEX ${name}`).unprepared
    yield* effect
    for (const { definition, name, owner } of constraints) {
      yield* sql.unsafe(`ALTER TABLE ${owner} ADD CONSTRAINT ${name} ${definition}`).unprepared
    }
    for (const { definition } of indexes) yield* sql.unsafe(definition).unprepared
  })
