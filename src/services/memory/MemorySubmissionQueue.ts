/**
 * The submission queue in memory, put together from its parts.
 */
import * as Effect from "effect/Effect"
import { makeClaims } from "./MemoryClaims.ts"
import { makeHolds } from "./MemoryHolds.ts"
import { makeOutcomes } from "./MemoryOutcomes.ts"
import { makeProviderLimits } from "./MemoryProviderLimits.ts"
import { makeQueueTable } from "./MemoryQueueTable.ts"
import { makeRescues } from "./MemoryRescues.ts"
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
    ...makeStatusReads(table),
    ...makeHolds(table).statements,
    ...makeProviderLimits(table)
  }
})
