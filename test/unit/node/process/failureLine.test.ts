/** The line that a failing process prints names the rule and the place of an invalid value, and never the value. */
import { assert, describe, it } from "@effect/vitest"
import { Config, ConfigProvider, Effect, Schema } from "effect"
import * as SqlError from "effect/sql/SqlError"
import { ProviderName } from "../../../../src/domain/Grant.ts"
import { failureLine } from "../../../../src/node/process/failureLine.ts"
import { StoreUnavailable } from "../../../../src/services/StoreUnavailable.ts"

const Account = Schema.Struct({ key: Schema.String.check(Schema.isMinLength(20, { expected: "20 characters" })) })

const notSet = "is not set: set it in the environment of this process"

const thrownBy = (run: () => unknown): unknown => {
  try {
    return run()
  } catch (error) {
    return error
  }
}

describe("The line of a failure", () => {
  it.effect.each<readonly [string, Config.Config<unknown>, string]>([
    ["text", Config.String("COLUMN_URL"), `COLUMN_URL ${notSet}`],
    ["a secret", Config.Redacted("COLUMN_API_KEY"), `COLUMN_API_KEY ${notSet}`],
    ["a number", Config.all({ port: Config.Port("COLUMN_PORT") }), `COLUMN_PORT ${notSet}`],
    [
      "a number that is none",
      Config.Int("COLUMN_LIMIT"),
      "COLUMN_LIMIT: Expected a string representing a finite number"
    ]
  ])(
    "tells which variable is not set and what to do, or what was expected of it: %s",
    ([, config, line]) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(config)
        assert.strictEqual(failureLine(error), line)
      }).pipe(Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env: { COLUMN_LIMIT: "ten" } }))))
  )

  it("tells the rule that a value of `make` breaks", () => {
    assert.strictEqual(
      failureLine(thrownBy(() => ProviderName.make("My Bank"))),
      "invalid value: Expected 1 to 255 visible ASCII characters"
    )
  })

  it.each([
    [
      SqlError.StatementTimeoutError,
      "canceling statement due to statement timeout",
      /^statement timeout: the database is busy.*; try again/
    ],
    [
      SqlError.LockTimeoutError,
      "canceling statement due to lock timeout",
      /^lock timeout: another transaction.*; try again/
    ],
    [
      SqlError.ConnectionError,
      "connect ECONNREFUSED",
      /^the database is unreachable: connect ECONNREFUSED; start it, or correct its URL$/
    ]
  ])("tells of %o what happened in the database, and what to do", (Reason, message, expected) => {
    const error = new SqlError.SqlError({
      reason: new Reason({ cause: new Error(message), message, operation: "execute" })
    })
    for (const failure of [error, new StoreUnavailable({ cause: error })]) {
      const line = failureLine(failure)
      assert.isTrue(line.startsWith("database error: "))
      assert.match(line.slice("database error: ".length), expected)
    }
  })

  it.effect("names the member that a decoder refuses, and does not repeat its value", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Schema.decodeUnknownEffect(Account)({ key: "secret" }))
      assert.strictEqual(failureLine(error), "invalid value: key: Expected 20 characters")
      assert.strictEqual(
        failureLine(thrownBy(() => Account.make({ key: "secret" }))),
        "invalid value: key: Expected 20 characters"
      )
    }))
})
