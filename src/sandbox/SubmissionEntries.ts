/** What the sandbox knows of each key: the requests that it received, and the decision on the first valid one. */
import * as Schema from "effect/Schema"
import type { InstructedFaults } from "./Faults.ts"
import type { SubmissionKey } from "./Protocol.ts"
import { type Receipt, RecordFailed } from "./Record.ts"
import { knownAt, type SandboxOutcome } from "./SandboxOutcome.ts"

/** The decision on the first valid request of a key. It never changes. */
export interface Fate {
  readonly outcome: "accepted" | "rejected" | "too_late" | "lost"
  /** For an accepted or rejected submission. */
  readonly settlement: SandboxOutcome | undefined
  readonly instructed: InstructedFaults | undefined
  readonly echo: Schema.Json
  /** SHA-256 of the body in hexadecimal. */
  readonly body: string | undefined
}

export interface Entry {
  receipts: number
  /** Reads of its status, and requests to cancel or approve it. Not recorded: a restart counts from 0. */
  reads: number
  decisions: number
  fate: Fate | undefined
  /** Whether the record has the fate. Until then the submission has no effect. */
  recorded: boolean
}

export interface Entries {
  readonly byKey: Map<SubmissionKey, Entry>
  /** Keys of the submissions with a reference of the bank. */
  readonly byReference: Map<string, SubmissionKey>
}

/** The entry of a key, which begins with its first request. */
export const entryOf = ({ byKey }: Entries, key: SubmissionKey): Entry => {
  const known = byKey.get(key)
  if (known !== undefined) return known
  const entry: Entry = { receipts: 0, reads: 0, decisions: 0, fate: undefined, recorded: false }
  byKey.set(key, entry)
  return entry
}

/** The record has the fate: from now on the submission is known. */
export const hasRecorded = ({ byReference }: Entries, key: SubmissionKey, entry: Entry): void => {
  entry.recorded = true
  if (entry.fate?.settlement !== undefined) byReference.set(entry.fate.settlement.reference, key)
}

const fateOf = ({ body_sha256: body, echo = null, instructed, outcome, settlement }: Receipt): Fate | undefined =>
  outcome === "accepted" || outcome === "rejected" || outcome === "too_late" || outcome === "lost"
    ? { outcome, settlement, instructed, echo, body }
    : undefined

/** Whether the bank has an order with the key. */
export const hasKey = (fate: Fate | undefined): boolean => fate?.outcome === "accepted"

/**
 * Rebuilds the entries from a record. Throws `RecordFailed` when the receipts of a key are not numbered 1, 2, 3 and so
 * on.
 */
export const restore = (receipts: ReadonlyArray<Receipt>): Entries => {
  const entries: Entries = { byKey: new Map(), byReference: new Map() }
  for (const [index, receipt] of receipts.entries()) {
    if (receipt.outcome === "incomplete") continue
    if (receipt.outcome === "cancelled" || receipt.outcome === "approved") {
      const { fate } = entryOf(entries, receipt.key)
      if (fate !== undefined) entryOf(entries, receipt.key).fate = { ...fate, settlement: receipt.settlement }
      continue
    }
    const entry = entryOf(entries, receipt.key)
    if (receipt.receipt !== entry.receipts + 1) {
      throw new RecordFailed({
        message: `line ${index + 1} of the record does not continue its key: did two sandboxes write to it?`
      })
    }
    entry.receipts = receipt.receipt
    if (receipt.fence === true && !hasKey(entry.fate)) entry.fate = undefined
    entry.fate ??= fateOf(receipt)
    if (entry.fate !== undefined) hasRecorded(entries, receipt.key, entry)
  }
  return entries
}

/** The fate of a submission. Undefined until the record has it. */
export const knownFate = (entries: Entries, key: SubmissionKey): Fate | undefined => {
  const entry = entries.byKey.get(key)
  return entry?.recorded === true ? entry.fate : undefined
}

/** The true state of a submission, also where a fault makes the sandbox answer otherwise. A final state never changes. */
export const Truth = Schema.Struct({
  key: Schema.String,
  receipts: Schema.Int,
  /** `absent`: not carried out so far. `refused`: never carried out. */
  status: Schema.Literals(["absent", "refused", "pending", "succeeded", "failed"]),
  final: Schema.Boolean
})
export type Truth = typeof Truth.Type

/** The true state of a submission now. */
export const truthOf = (entries: Entries, key: SubmissionKey, now: number): Truth => {
  const receipts = entries.byKey.get(key)?.receipts ?? 0
  const fate = knownFate(entries, key)
  if (fate === undefined) return { key, receipts, status: "absent", final: false }
  if (fate.outcome !== "accepted" || fate.settlement === undefined) {
    return { key, receipts, status: "refused", final: true }
  }
  const status = knownAt(key, fate.settlement, fate.echo, now)?.status.status ?? "absent"
  return { key, receipts, status, final: status === "succeeded" || status === "failed" }
}
