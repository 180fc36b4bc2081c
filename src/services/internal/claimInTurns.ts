/**
 * How claims take turns among the clients of a provider, in every implementation of the queue.
 *
 * Each client has a lane; operations that were put off have one in common, whose name is empty. A claim goes round the
 * lanes, in the order of their names, from where the claim before it ended.
 */
import * as Effect from "effect/Effect"
import type { Provider } from "../../domain/Grant.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

/** What one statement found in the lanes that it visited. */
export interface LaneVisit<A> {
  readonly items: ReadonlyArray<A>
  /** A lane may hold more than its share, or there are lanes that were not visited. */
  readonly more: boolean
  /** The lane after which the next visit begins; null when there was no lane. */
  readonly next: string | null
}

/** The most statements for one call. Operations that cannot be sent use up the room of a statement, and are put off. */
export const maxTurns = 32

/** The share of each of so many lanes, in the order of the visit. One lane more has one operation less at the most. */
export const shareOf = (limit: number, lanes: number, index: number): number =>
  Math.floor(limit / lanes) + (index < limit % lanes ? 1 : 0)

const nothing: LaneVisit<never> = { items: [], more: false, next: null }

/**
 * Visits lanes until the limit is reached or no lane holds more. It remembers for each provider where the next claim
 * begins. If the store goes away meanwhile, it yields what it claimed before.
 */
export const makeClaimInTurns = () => {
  const begins = new Map<Provider, string>()
  return <A>(
    provider: Provider,
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
