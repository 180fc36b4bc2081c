/** `DATABASE_SYNCHRONOUS` is heeded, and a typing error never switches it off. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Option, Redacted } from "effect"
import { Database } from "../../../src/node/postgres/Database.ts"

const database = (value: string | undefined, url: Option.Option<string>) =>
  Database.use(({ mustReplicate = false }) => Effect.succeed(mustReplicate)).pipe(
    Effect.provide(Database.layer({ databaseUrl: Option.map(url, Redacted.make), dataDir: "/nowhere/at/all" })),
    Effect.provide(
      ConfigProvider.layer(ConfigProvider.fromUnknown(value === undefined ? {} : { DATABASE_SYNCHRONOUS: value }))
    )
  )

const own = Option.some("postgres://gateway@127.0.0.1:1/gateway")

describe("DATABASE_SYNCHRONOUS", () => {
  it.effect("is off by default, and on if it is required", () =>
    Effect.gen(function*() {
      for (const [value, expected] of [[undefined, false], ["", false], ["off", false], ["required", true]] as const) {
        assert.strictEqual(yield* database(value, own), expected, String(value))
      }
    }))

  it.effect("refuses any other value", () =>
    Effect.gen(function*() {
      for (const value of ["on", "Required", "require", "true", "remote_apply"]) {
        const error = yield* Effect.flip(database(value, own))
        assert.include(String(error), "DATABASE_SYNCHRONOUS must be required or off", value)
      }
    }))

  it.effect("is refused for the embedded PostgreSQL, which has no standby", () =>
    Effect.gen(function*() {
      assert.include(String(yield* Effect.flip(database("required", Option.none()))), "set both")
    }))
})
