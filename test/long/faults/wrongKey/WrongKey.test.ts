/**
 * A key that the bank refuses ends no payment: the operations wait, and each is carried out once with the right key. This is the
 * short form of `npm run wrong-key`.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { brokenIn } from "../kit/Figure.ts"
import { runWrongKey } from "./WrongKey.ts"

describe("while the bank refuses the key of the workers", () => {
  it.live("no operation ends; with the right key each is carried out once and settles", () =>
    Effect.gen(function*() {
      const { figures } = yield* runWrongKey({
        rate: 25,
        // Until the bank has refused six more submissions, so that the workers have claimed, returned and probed.
        wrong: (refused) =>
          Effect.flatMap(refused, (before) =>
            Effect.repeat(Effect.delay(refused, "50 millis"), { until: (count) => count >= before + 6 }))
      })
      assert.deepStrictEqual(brokenIn(figures), [])
    }))
})
