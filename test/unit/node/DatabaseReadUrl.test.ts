/** `DATABASE_READ_URL` needs confirmed statements and a database of its own; a typing error does not switch it off. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Option, Redacted } from "effect"
import { Database } from "../../../src/node/postgres/Database.ts"
import { Platform } from "../../fixtures/TestDatabase.ts"

const url = "postgres://reader:secret@standby/gateway"

const read = (variables: Record<string, string>, databaseUrl: string | null = "postgres://primary/gateway") =>
  Database.useSync(({ standbys }) => standbys?.url === undefined ? null : Redacted.value(standbys.url)).pipe(
    Effect.provide(Database.layer({
      databaseUrl: Option.map(Option.fromNullishOr(databaseUrl), Redacted.make),
      dataDir: "never-created"
    })),
    Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(variables))),
    Effect.provide(Platform)
  )

const messageOf = (variables: Record<string, string>, databaseUrl?: string | null) =>
  Effect.map(Effect.flip(read(variables, databaseUrl)), ({ message }) => message)

const synchronous = { DATABASE_SYNCHRONOUS: "required" }

describe("DATABASE_READ_URL", () => {
  it.effect("names standbys, one or several", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* read({ ...synchronous, DATABASE_READ_URL: url }), url)
      const several = "postgres://reader@one,two:5433/gateway?target_session_attrs=standby"
      assert.strictEqual(yield* read({ ...synchronous, DATABASE_READ_URL: several }), several)
      assert.isNull(yield* read(synchronous))
      assert.isNull(yield* read({ ...synchronous, DATABASE_READ_URL: " " }))
    }))

  it.effect("is refused where no statement is confirmed", () =>
    Effect.gen(function*() {
      for (const variables of [{}, { DATABASE_SYNCHRONOUS: "off" }]) {
        assert.strictEqual(
          yield* messageOf({ ...variables, DATABASE_READ_URL: url }),
          "DATABASE_READ_URL needs DATABASE_SYNCHRONOUS=required"
        )
      }
    }))

  it.effect("is refused beside an embedded database", () =>
    Effect.gen(function*() {
      assert.strictEqual(
        yield* messageOf({ DATABASE_READ_URL: url }, null),
        "DATABASE_READ_URL is set without DATABASE_URL: set both"
      )
    }))

  it.effect("is refused if it asks for a primary or cannot be read, without a word of it", () =>
    Effect.gen(function*() {
      for (
        const invalid of [`${url}?target_session_attrs=primary`, `${url}?target_session_attrs=read-write`, "secret"]
      ) {
        const message = yield* messageOf({ ...synchronous, DATABASE_READ_URL: invalid })
        assert.match(message, /^DATABASE_READ_URL is invalid: /)
        assert.notInclude(message, "secret")
      }
    }))
})
