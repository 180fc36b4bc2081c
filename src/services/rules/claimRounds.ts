/**
 * How a call repeats a statement that takes work, in every implementation of the queue.
 *
 * Each client has a queue at a provider: its accepted operations. Waiting operations of all clients share one queue, whose name is empty. A
 * claim visits the client queues in the order of their names, and begins after the last queue of the claim before it.
 */
import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

interface TakenWork<A> {
  readonly items: ReadonlyArray<A>
  /** There may be more that is due. */
  readonly more: boolean
}

/** The result of a claim statement that visited some client queues. `more`: one may hold more than its share, or some were left out. */
export interface QueueVisit<A> extends TakenWork<A> {
  /** The queue after which the next visit begins. Null: there was no queue. */
  readonly next: string | null
}

/** Most statements for one call. Operations that are not ready count in a statement, and are postponed. */
const maxStatements = 32

/** The share of the queue at `index`, in the order of the visit. The shares of two queues differ by one at most. */
export const shareOf = (limit: number, queues: number, index: number): number =>
  Math.floor(limit / queues) + (index < limit % queues ? 1 : 0)

const nothing: TakenWork<never> = { items: [], more: false }

/**
 * Repeats a statement until the limit is reached or nothing more is due: operations that are not ready do not delay the others.
 * If the store goes away meanwhile, it returns the items that it has.
 */
export const untilServed = <A>(
  limit: number,
  take: (left: number) => Effect.Effect<TakenWork<A>, StoreUnavailable>
): Effect.Effect<ReadonlyArray<A>, StoreUnavailable> =>
  Effect.gen(function*() {
    const served: Array<A> = []
    for (let statements = 0; statements < maxStatements; statements++) {
      const { items, more } = yield* take(limit - served.length).pipe(
        Effect.catchTag("StoreUnavailable", (error) => served.length > 0 ? Effect.succeed(nothing) : Effect.fail(error))
      )
      served.push(...items)
      if (!more || served.length === limit) break
    }
    return served
  })

/** Makes the function that visits client queues. It remembers for each provider where the next claim begins. */
export const makeClaimRounds = () => {
  const begins = new Map<ProviderName, string>()
  return <A>(
    provider: ProviderName,
    limit: number,
    visit: (left: number, after: string) => Effect.Effect<QueueVisit<A>, StoreUnavailable>
  ): Effect.Effect<ReadonlyArray<A>, StoreUnavailable> =>
    untilServed(limit, (left) =>
      Effect.tap(visit(left, begins.get(provider) ?? ""), ({ next }) =>
        Effect.sync(() => {
          if (next !== null) begins.set(provider, next)
        })))
}
