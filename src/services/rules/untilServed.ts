import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../StoreUnavailable.ts"
import { maxTurns } from "./claimInTurns.ts"

/**
 * Repeats a statement while it finds a full batch of which it had to postpone some: operations that are not ready do not
 * delay the others. If the store goes away meanwhile, it returns the items that it has.
 */
export const untilServed = <A>(
  limit: number,
  ask: (left: number) => Effect.Effect<{ readonly items: ReadonlyArray<A>; readonly due: number }, StoreUnavailable>
): Effect.Effect<ReadonlyArray<A>, StoreUnavailable> =>
  Effect.gen(function*() {
    const served: Array<A> = []
    for (let turns = 0; turns < maxTurns; turns++) {
      const left = limit - served.length
      const { due, items } = yield* ask(left).pipe(
        Effect.catchTag("StoreUnavailable", (error) =>
          served.length > 0 ? Effect.succeed({ items: [], due: 0 }) : Effect.fail(error))
      )
      served.push(...items)
      if (due < left || served.length === limit) {
        break
      }
    }
    return served
  })
