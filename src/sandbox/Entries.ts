/**
 * The state of each key in memory. `restore` rebuilds it from the record.
 */
import type { InstructedFaults } from "./Faults.ts"
import type { SubmissionKey } from "./Protocol.ts"
import { type Receipt, RecordFailed } from "./Record.ts"
import type { SandboxOutcome } from "./SandboxOutcome.ts"

/** The decision on the first valid request of a key. It never changes. */
export interface Fate {
  readonly outcome: "accepted" | "rejected" | "too_late" | "lost"
  /** For an accepted or rejected submission. */
  readonly settlement: SandboxOutcome | undefined
  readonly instructed: InstructedFaults | undefined
}

/** The state of one key. */
export interface Entry {
  /** Complete requests with the key. */
  receipts: number
  /** Reads of its status. Not recorded: a restart counts from 0. */
  reads: number
  fate: Fate | undefined
  /** Whether the record has the fate. Until then the submission has no effect. */
  recorded: boolean
}

export type Entries = Map<SubmissionKey, Entry>

export const entryOf = (entries: Entries, key: SubmissionKey): Entry => {
  const known = entries.get(key)
  if (known !== undefined) return known
  const entry: Entry = { receipts: 0, reads: 0, fate: undefined, recorded: false }
  entries.set(key, entry)
  return entry
}

const fateOf = ({ instructed, outcome, settlement }: Receipt): Fate | undefined =>
  outcome === "accepted" || outcome === "rejected" || outcome === "too_late" || outcome === "lost"
    ? { outcome, settlement, instructed }
    : undefined

/**
 * Rebuilds the entries from a record. Throws `RecordFailed` when the receipts of a key are not numbered 1, 2, 3 and so
 * on.
 */
export const restore = (receipts: ReadonlyArray<Receipt>): Entries => {
  const entries: Entries = new Map()
  for (const [index, receipt] of receipts.entries()) {
    if (receipt.outcome === "incomplete") continue
    const entry = entryOf(entries, receipt.key)
    if (receipt.receipt !== entry.receipts + 1) {
      throw new RecordFailed({
        message: `line ${index + 1} of the record does not continue its key: did two sandboxes write to it?`
      })
    }
    entry.receipts = receipt.receipt
    entry.fate ??= fateOf(receipt)
    entry.recorded = entry.fate !== undefined
  }
  return entries
}
