/** The pool of the readers reads timestamps as milliseconds: the same instants that the driver reads as `Date`. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Database } from "../../../../../src/node/postgres/Database.ts"
import * as DriverClient from "../../../../../src/node/postgres/driver/DriverClient.ts"
import { ReaderPool } from "../../../../../src/node/postgres/Pools.ts"
import { gatewayDatabase } from "../../../../fixtures/postgres/GatewayDatabase.ts"
import { TestDatabase } from "../../../../fixtures/postgres/TestDatabase.ts"

class Dates extends Context.Service<Dates, SqlClient.SqlClient>()("test/Dates") {}

/** A client that reads them as the driver does. */
const DriversDates = Layer.unwrap(
  Effect.map(
    Database,
    ({ connection }) =>
      Layer.effect(Dates, SqlClient.SqlClient).pipe(Layer.provide(DriverClient.layer(connection, "dates")))
  )
)

/** Both, on one database. */
const pools = Layer.merge(Layer.fresh(ReaderPool), DriversDates).pipe(
  Layer.provide(gatewayDatabase()),
  Layer.provide(TestDatabase)
)

/** Milliseconds from 2000-01-01. PostgreSQL has dates from 4713 before Christ, and `Date` until the year 275760. */
const Distance = Schema.Int.check(Schema.isBetween({ minimum: -211_000_000_000_000, maximum: 8_639_053_315_200_000 }))

const timestamps =
  "SELECT timestamptz '2000-01-01Z' + (d || ' milliseconds')::interval AS at FROM unnest($1::text[]) AS t (d)"

layer(pools, { excludeTestServices: true })("A timestamp", (it) => {
  it.effect.prop(
    "is the milliseconds of its Date",
    [Schema.Array(Distance).check(Schema.isMaxLength(20))],
    ([distances]) =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const dates = yield* (yield* Dates).unsafe<{ readonly at: Date }>(timestamps, [distances.map(String)])
        const numbers = yield* sql.unsafe<{ readonly at: number }>(timestamps, [distances.map(String)])
        assert.deepStrictEqual(numbers.map(({ at }) => at), dates.map(({ at }) => at.getTime()))
      })
  )

  it.effect("at infinity is infinite, and a Date is a parameter as before", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const at = new Date("2026-01-31T12:00:00.001Z")
      const rows = yield* sql.unsafe(
        "SELECT timestamptz 'infinity' AS a, timestamptz '-infinity' AS b, $1::timestamptz AS c",
        [at]
      )
      assert.deepStrictEqual(rows, [{ a: Infinity, b: -Infinity, c: at.getTime() }])
    }))
})
