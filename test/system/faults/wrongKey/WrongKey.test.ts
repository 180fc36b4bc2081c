/**
 * A key that the bank refuses ends no payment: the operations wait, and each is sent once with the right key. The test
 * runs real workers, a real PostgreSQL and a bank over HTTP. `npm run wrong-key` is its long form.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Platform } from "../kit/Platform.ts"
import { runWrongKey } from "./WrongKey.ts"

describe("while the bank refuses the key of the workers", () => {
  it.live("no operation ends; with the right key each is sent once and settles", () =>
    Effect.gen(function*() {
      const result = yield* runWrongKey({
        rate: 100,
        // Until the bank has refused six more submissions, so that the workers have claimed, returned and probed.
        wrong: (bank) => {
          const before = bank.refusals.length
          return Effect.repeat(Effect.delay(Effect.sync(() => bank.refusals.length), "10 millis"), {
            until: (count) => count >= before + 6
          })
        }
      })
      assert.hasAllKeys(
        { accepted: 0, submitting: 0, ...result.statesBefore },
        ["accepted", "submitting"],
        "no other state while the key is wrong"
      )
      assert.deepStrictEqual(result.statesAfter, { succeeded: result.accepted })
      assert.strictEqual(result.paid, result.accepted)
      assert.strictEqual(result.paidTwice, 0)
      assert.isNotNull(result.firstWarning, "the log says what was wrong")
      assert.deepStrictEqual(result.exits, [0, 0, 0])
    }).pipe(Effect.provide(Platform)))
})
