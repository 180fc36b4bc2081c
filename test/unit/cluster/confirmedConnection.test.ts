/**
 * A confirmed connection tells nothing before its confirmation: results, errors of the server, and transactions as a whole. The session
 * is a model that notes the order of the steps.
 */
import type { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { SqlError } from "effect/sql"
import { confirmedConnection } from "../../../src/cluster/confirmReplication.ts"

/** An error of the server has a state, and one of the connection has none. */
const failure = (code: string | null) => {
  const cause = Object.assign(new Error("failed"), code === null ? {} : { code })
  return new SqlError.SqlError({ reason: new SqlError.UnknownError({ cause, message: "failed", operation: "query" }) })
}

/** Runs statements, each to its end, and returns the order of statements and confirmations. */
const stepsOf = Effect.fnUntraced(function*(
  texts: ReadonlyArray<string>,
  failures: Readonly<Record<string, SqlError.SqlError>> = {}
) {
  const steps: Array<string> = []
  const query = (text: string) =>
    Effect.suspend(() => {
      steps.push(text)
      return text in failures ? Effect.fail(failures[text]!) : Effect.succeed({ rows: [] })
    })
  // The cast: the rest of a session is not used.
  const session = { query, queryValues: query } as unknown as PgConnection.PgConnection
  const connection = confirmedConnection(session, Effect.sync(() => void steps.push("confirmed")))
  const ways: ReadonlyArray<(text: string) => Effect.Effect<unknown, SqlError.SqlError>> = [
    (text: string) => connection.execute(text, [], undefined),
    (text: string) => connection.executeUnprepared(text, [], undefined),
    (text: string) => connection.executeRaw(text, []),
    (text: string) => connection.executeValues(text, []),
    (text: string) => connection.executeValuesUnprepared(text, []),
    (text: string) => Stream.runCollect(connection.executeStream(text, [], undefined))
  ]
  const orders: Array<ReadonlyArray<string>> = []
  for (const way of ways) {
    for (const text of texts) yield* Effect.exit(way(text))
    orders.push(steps.splice(0))
  }
  for (const order of orders) assert.deepStrictEqual(order, orders[0]!)
  return orders[0]!
})

describe("A confirmed connection", () => {
  it.effect("confirms after each statement, in every way to run one", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* stepsOf(["SELECT 1", "SELECT 2"]), [
        "SELECT 1",
        "confirmed",
        "SELECT 2",
        "confirmed"
      ])
    }))

  it.effect("confirms a transaction once, after its end", () =>
    Effect.gen(function*() {
      for (const begin of ["BEGIN", "BEGIN ISOLATION LEVEL READ COMMITTED"]) {
        for (const end of ["COMMIT", "ROLLBACK"]) {
          const texts = [begin, "SELECT 1", "SAVEPOINT s", "ROLLBACK TO SAVEPOINT s", end, "SELECT 2"]
          assert.deepStrictEqual(yield* stepsOf(texts), [...texts.slice(0, 5), "confirmed", "SELECT 2", "confirmed"])
        }
      }
    }))

  it.effect("confirms an error of the server, and none of the connection", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* stepsOf(["SELECT 1"], { "SELECT 1": failure("23505") }), ["SELECT 1", "confirmed"])
      assert.deepStrictEqual(yield* stepsOf(["SELECT 1"], { "SELECT 1": failure(null) }), ["SELECT 1"])
    }))

  it.effect("confirms after a COMMIT that failed, and each statement after it", () =>
    Effect.gen(function*() {
      const texts = ["BEGIN", "SELECT 1", "COMMIT", "SELECT 2"]
      assert.deepStrictEqual(yield* stepsOf(texts, { COMMIT: failure("40001") }), [
        "BEGIN",
        "SELECT 1",
        "COMMIT",
        "confirmed",
        "SELECT 2",
        "confirmed"
      ])
    }))
})
