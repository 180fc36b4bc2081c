import * as Effect from "effect/Effect"
import { Readable } from "node:stream"
import { encodeReceipt, type Receipt, type SubmissionRecord } from "./Record.ts"

/** A record in memory, lost when the process ends. For tests and benchmarks. */
export const makeMemoryRecord = (): SubmissionRecord => {
  const receipts: Array<Receipt> = []
  return {
    append: (receipt) => {
      receipts.push(receipt)
      return Effect.void
    },
    receipts: Effect.sync(() => [...receipts]),
    lines: () => Readable.from(receipts.values().map((receipt) => `${encodeReceipt(receipt)}\n`))
  }
}
