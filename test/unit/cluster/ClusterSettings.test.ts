/** The settings of a cluster are heeded, fit each other, and never switched off by a typing error. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Redacted } from "effect"
import { readClusterSettings } from "../../../src/cluster/PostgresCluster.ts"

const read = (variables: Record<string, string>, isEmbedded = false) =>
  readClusterSettings({ isEmbedded }).pipe(
    Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(variables)))
  )

const messageOf = (variables: Record<string, string>, isEmbedded?: boolean) =>
  Effect.map(Effect.flip(read(variables, isEmbedded)), ({ message }) => message)

const synchronous = { DATABASE_SYNCHRONOUS: "required" }
const url = "postgres://reader:secret@standby/gateway"

describe("DATABASE_SYNCHRONOUS", () => {
  it.effect("is off by default, and on if it is required", () =>
    Effect.gen(function*() {
      for (const [value, expected] of [["", false], ["off", false], ["required", true]] as const) {
        assert.strictEqual((yield* read({ DATABASE_SYNCHRONOUS: value })).mustReplicate, expected, value)
      }
      assert.isFalse((yield* read({})).mustReplicate)
    }))

  it.effect("refuses any other value, and the embedded PostgreSQL, which has no standby", () =>
    Effect.gen(function*() {
      for (const value of ["on", "Required", "require", "true", "remote_apply"]) {
        assert.strictEqual(
          yield* messageOf({ DATABASE_SYNCHRONOUS: value }),
          "DATABASE_SYNCHRONOUS must be required or off",
          value
        )
      }
      assert.include(yield* messageOf(synchronous, true), "set both")
    }))
})

describe("DATABASE_READ_URL", () => {
  const standbys = (variables: Record<string, string>) =>
    Effect.map(read({ ...synchronous, ...variables }), ({ standbys }) => standbys && Redacted.value(standbys.url))

  it.effect("names standbys, one or several", () =>
    Effect.gen(function*() {
      const several = "postgres://reader@one,two:5433/gateway?target_session_attrs=standby"
      for (const text of [url, several]) assert.strictEqual(yield* standbys({ DATABASE_READ_URL: text }), text)
      assert.isNull(yield* standbys({}))
      assert.isNull(yield* standbys({ DATABASE_READ_URL: " " }))
    }))

  it.effect("is refused where no statement is confirmed, and beside an embedded database", () =>
    Effect.gen(function*() {
      for (const variables of [{}, { DATABASE_SYNCHRONOUS: "off" }]) {
        assert.strictEqual(
          yield* messageOf({ ...variables, DATABASE_READ_URL: url }),
          "DATABASE_READ_URL needs DATABASE_SYNCHRONOUS=required"
        )
      }
      assert.strictEqual(
        yield* messageOf({ DATABASE_READ_URL: url }, true),
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
