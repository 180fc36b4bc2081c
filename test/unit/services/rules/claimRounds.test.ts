/** A claim of several statements serves what the first ones have claimed, also if the others fail. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { untilServed } from "../../../../src/services/rules/claimRounds.ts"
import { StoreUnavailable } from "../../../../src/services/StoreUnavailable.ts"

it.effect("Claims are served also if a later statement fails: no worker would send them otherwise", () =>
  Effect.gen(function*() {
    const away = Effect.fail(new StoreUnavailable({ cause: new Error("away") }))
    const failingAfter = (statements: number) => {
      let left = statements
      return untilServed(3, (limit) => left-- > 0 ? Effect.succeed({ items: [limit], more: true }) : away)
    }
    assert.deepStrictEqual(yield* failingAfter(2), [3, 2])
    assert.instanceOf(yield* Effect.flip(failingAfter(0)), StoreUnavailable)
  }))
