/**
 * The submission queue in memory, put together from its parts.
 */
import * as Effect from "effect/Effect"
import { makeClaims } from "./MemoryClaims.ts"
import { makeHolds } from "./MemoryHolds.ts"
import { makeOutcomes } from "./MemoryOutcomes.ts"
import { makeQueueTable } from "./MemoryQueueTable.ts"
import { makeStatusReads } from "./MemoryStatusReads.ts"

export const makeMemory = Effect.gen(function*() {
  const table = yield* makeQueueTable
  return {
    ...yield* makeClaims(table),
    ...makeOutcomes(table),
    ...makeStatusReads(table),
    ...makeHolds(table)
  }
})
