/**
 * Claims take turns among the clients of a provider, in every implementation of the queue.
 *
 * Each client has a lane. Waiting operations share the lane with the empty name. A claim goes round the lanes, in the order
 * of their names, and begins where the claim before it ended.
 */
import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

/** The result of a claim statement that visited some lanes. */
export interface LaneVisit<A> {
  readonly items: ReadonlyArray<A>
  /** A lane may hold more than its share, or the statement did not visit all lanes. */
  readonly more: boolean
  /** The lane after which the next visit begins. Null: there was no lane. */
  readonly next: string | null
}

/** Most statements for one call. Operations that are not ready count in a statement, and are postponed. */
export const maxTurns = 32

/** The share of the lane at `index`, in the order of the visit. The shares of two lanes differ by one at most. */
export const shareOf = (limit: number, lanes: number, index: number): number =>
  Math.floor(limit / lanes) + (index < limit % lanes ? 1 : 0)

const nothing: LaneVisit<never> = { items: [], more: false, next: null }

/**
 * Makes the function that visits lanes until the limit is reached or no lane holds more. It remembers for each provider where
 * the next claim begins. If the store goes away meanwhile, it returns the operations that it has claimed.
 */
export const makeClaimInTurns = () => {
  const begins = new Map<ProviderName, string>()
  return <A>(
    provider: ProviderName,
    limit: number,
    visit: (left: number, after: string) => Effect.Effect<LaneVisit<A>, StoreUnavailable>
  ): Effect.Effect<ReadonlyArray<A>, StoreUnavailable> =>
    Effect.gen(function*() {
      const claimed: Array<A> = []
      for (let turns = 0; turns < maxTurns; turns++) {
        const { items, more, next } = yield* visit(limit - claimed.length, begins.get(provider) ?? "").pipe(
          Effect.catchTag("StoreUnavailable", (error) =>
            claimed.length > 0 ? Effect.succeed(nothing) : Effect.fail(error))
        )
        if (next !== null) {
          begins.set(provider, next)
        }
        claimed.push(...items)
        if (!more || claimed.length === limit) {
          break
        }
      }
      return claimed
    })
}
