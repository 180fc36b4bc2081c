/**
 * What the sandbox remembers of each key. All of it can be told from the record.
 */
import type { InstructedFaults } from "./Faults.ts"
import type { SubmissionKey } from "./Protocol.ts"
import { type Receipt, RecordFailed } from "./Record.ts"
import type { Settlement } from "./SettlementMix.ts"

/** What was decided when a submission was first understood. It never changes. */
export interface Fate {
  readonly outcome: "accepted" | "rejected" | "too_late" | "lost"
  /** Of what is accepted or rejected. */
  readonly settlement: Settlement | undefined
  readonly instructed: InstructedFaults | undefined
}

/** One key. */
export interface Entry {
  /** Complete requests that came with it. */
  receipts: number
  /** Reads of its status. Not recorded: a restart counts anew. */
  reads: number
  fate: Fate | undefined
  /** Whether the record has its fate: before, nothing takes effect. */
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

/** Rebuilds everything from a record. Throws `RecordFailed` when the receipts of a key do not count on. */
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
