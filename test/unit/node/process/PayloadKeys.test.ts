/**
 * Payload keys come from the environment, and an invalid setting stops the start. The tests build the cipher from
 * environments.
 */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer } from "effect"
import { layerPayloadKeys } from "../../../../src/node/process/PayloadKeys.ts"
import { Platform } from "../../../../src/node/process/runProgram.ts"
import { PayloadCipher } from "../../../../src/services/PayloadCipher.ts"

const key = Buffer.alloc(32, 1).toString("base64")
const keys = { PAYLOAD_KEYS: `new:${key}` }

/** The cipher of a process with this environment, or the error that stops its start. */
const cipherIn = (env: Readonly<Record<string, string>>) =>
  Effect.provide(
    Effect.map(PayloadCipher, (cipher) => cipher),
    layerPayloadKeys.pipe(
      Layer.provide(Platform),
      Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env })))
    )
  )

describe("Payload keys in the environment", () => {
  it.effect("permit plain text only for operations that were accepted before PAYLOAD_PLAINTEXT_UNTIL", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* cipherIn(keys)).plaintextBefore, -Infinity)
      for (const instant of ["2026-01-31T12:00:00Z", "2026-01-31T13:30:00.000+01:30"]) {
        const { plaintextBefore } = yield* cipherIn({ ...keys, PAYLOAD_PLAINTEXT_UNTIL: instant })
        assert.strictEqual(plaintextBefore, Date.UTC(2026, 0, 31, 12))
      }
    }))

  it.effect("are optional: without them every payload is plain text", () =>
    Effect.gen(function*() {
      assert.deepInclude(yield* cipherIn({}), { keyIds: [], plaintextBefore: Infinity })
    }))

  const refusals: ReadonlyArray<readonly [what: string, env: Readonly<Record<string, string>>, message: RegExp]> = [
    ...["tomorrow", "2026-01-31", "2026-01-31T12:00:00", "2026-02-30T12:00:00Z", "1769860800"].map((until) =>
      [
        `PAYLOAD_PLAINTEXT_UNTIL is ${JSON.stringify(until)}`,
        { ...keys, PAYLOAD_PLAINTEXT_UNTIL: until },
        /^PAYLOAD_PLAINTEXT_UNTIL must be an RFC 3339 date-time such as 2026-01-31T12:00:00Z$/
      ] as const
    ),
    [
      "PAYLOAD_PLAINTEXT_UNTIL is set without keys",
      { PAYLOAD_PLAINTEXT_UNTIL: "2026-01-31T12:00:00Z" },
      /^PAYLOAD_PLAINTEXT_UNTIL needs PAYLOAD_KEYS: set the keys, or remove it$/
    ],
    ["a key is too short", { PAYLOAD_KEYS: "k:c2hvcnQ=" }, /^PAYLOAD_KEYS must be (?!.*c2hvcnQ)/],
    ["two keys have one name", { PAYLOAD_KEYS: `k:${key},k:${key}` }, /^PAYLOAD_KEYS must be/]
  ]
  it.effect.each(refusals)("are refused if %s", ([, env, message]) =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(cipherIn(env))
      assert.strictEqual(error._tag, "InvalidSetting")
      assert.match(error.message, message)
    }))
})
