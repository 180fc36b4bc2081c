/**
 * The sandbox's own record of every submission that it received: the judge of "at most once".
 */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Readable } from "node:stream"
import { InstructedFaults } from "./Faults.ts"
import { SubmissionKey } from "./Protocol.ts"
import { Instant, Settlement } from "./SettlementMix.ts"

/** What became of a receipt. */
export const ReceiptOutcome = Schema.Literals([
  /** It will be carried out, as its settlement says. */
  "accepted",
  /** Refused for ever, as its settlement says. */
  "rejected",
  /** It came after its `Send-Before`: refused for ever. */
  "too_late",
  /** The fault `lose`: nothing was carried out, nor ever will be. */
  "lost",
  /** The key was received before: the first answer again, nothing else. */
  "repeated",
  /** The same, answered by the fault `duplicate_key_rejected`. */
  "duplicate_key",
  /** The request could not be understood. Nothing was carried out; the key is still free. */
  "invalid",
  /** The request never ended: not a submission, and not counted. */
  "incomplete"
])
export type ReceiptOutcome = typeof ReceiptOutcome.Type

/** One line of the record. */
export const Receipt = Schema.Struct({
  key: SubmissionKey,
  /** The how manieth complete request with this key it is, from 1. 0 when it is incomplete. */
  receipt: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
  at: Instant,
  outcome: ReceiptOutcome,
  /** Faults that struck the receipt or its answer, by name. */
  faults: Schema.Array(Schema.String),
  type: Schema.optionalKey(Schema.String),
  /** SHA-256 of the body in hexadecimal, so that two receipts of a key can be compared. The payload is not kept. */
  body_sha256: Schema.optionalKey(Schema.String),
  settlement: Schema.optionalKey(Settlement),
  /** Faults that the payload asked for: those of the status reads are still to come. */
  instructed: Schema.optionalKey(InstructedFaults)
})
export type Receipt = typeof Receipt.Type

/** The record cannot be read or written. Without a record nothing may take effect. */
export class RecordFailed extends Schema.TaggedError<RecordFailed>()("RecordFailed", {
  message: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {}

/** An append-only record. */
export interface SubmissionRecord {
  /**
   * Takes the next place in the record when it is called; the effect waits until the receipt is durable. Once one could
   * not be made durable, none ever is again: what the disk holds is not known any more.
   */
  readonly append: (receipt: Receipt) => Effect.Effect<void, RecordFailed>
  /** Every durable receipt, in order. */
  readonly receipts: Effect.Effect<ReadonlyArray<Receipt>, RecordFailed>
  /** The same as lines of JSON. */
  readonly lines: () => Readable
}

const ReceiptLine = Schema.fromJsonString(Receipt)

/** A receipt as a line of JSON, without its end. */
export const encodeReceipt = Schema.encodeSync(ReceiptLine)

/** Reads a line back. Strict: a line that holds anything else was not written by `encodeReceipt`. */
export const decodeReceipt = Schema.decodeResult(ReceiptLine, { onExcessProperty: "error" })
