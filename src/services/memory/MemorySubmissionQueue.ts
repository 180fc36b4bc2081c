/** The submission queue in memory, put together from its parts. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import { longestPause, makeReservations, unusedLimit } from "../rules/providerPermits.ts"
import { makeClaims, makeOutcomes } from "./MemoryClaims.ts"
import { makeHolds, makeRescues } from "./MemoryHolds.ts"
import { makeQueueTable, type MemoryQueueTable } from "./MemoryQueueTable.ts"
import { makeStatusReads } from "./MemoryStatusReads.ts"

export const makeMemory = Effect.gen(function*() {
  const table = yield* makeQueueTable
  return {
    // A failover in memory ends every token.
    markChanges: Effect.void,
    // `LedgerFigures` has no implementation in memory.
    foldCounts: Effect.void,
    readClock: Effect.sync(table.now),
    requiresRecords: Effect.sync(() => table.memory.home.has("epoch")),
    reportWorker: () => Effect.void,
    forgetWorker: () => Effect.void,
    ...yield* makeClaims(table),
    ...makeOutcomes(table),
    ...makeRescues(table),
    ...yield* makeStatusReads(table),
    ...makeHolds(table).statements,
    ...makeProviderLimits(table)
  }
})

const makeProviderLimits = ({ memory: { limits }, millis }: MemoryQueueTable) => {
  const stateOf = (provider: ProviderName) => limits.get(provider) ?? unusedLimit
  return {
    ...makeReservations({
      read: (provider) => Effect.sync(() => ({ state: stateOf(provider), now: millis() * 1000 })),
      replace: (provider, known, next) =>
        Effect.sync(() => {
          if (stateOf(provider) !== known) return false
          limits.set(provider, next)
          return true
        })
    }),
    closeProvider: (provider: ProviderName, pause: Duration.Duration) =>
      Effect.sync(() => {
        const state = stateOf(provider)
        const until = millis() * 1000 + Math.min(Duration.toMillis(pause) * 1000, longestPause)
        limits.set(provider, { ...state, closed_until: Math.max(state.closed_until, until) })
      })
  }
}
