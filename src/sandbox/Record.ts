/**
 * The sandbox's own record of every submission that it received. Tests check "at most once" against it.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Readable } from "node:stream"
import { InstructedFaults } from "./Faults.ts"
import { SubmissionKey } from "./Protocol.ts"
import { Instant, SandboxOutcome } from "./SandboxOutcome.ts"

/** The outcome of a receipt. */
export const ReceiptOutcome = Schema.Literals([
  /** Carried out according to its outcome. */
  "accepted",
  /** Refused for good, according to its outcome. */
  "rejected",
  /** Arrived after its `Send-Before`: refused for good. */
  "too_late",
  /** The fault `lose`: not carried out, now or later. */
  "lost",
  /** The key was received before: answered with the first answer, and not carried out again. */
  "repeated",
  /** The key was received before: answered 409 by the fault `duplicate_key_rejected`. */
  "duplicate_key",
  /** The request is invalid. Nothing was carried out, and the key is still free. */
  "invalid",
  /** The request was not received completely: not a submission, and not counted. */
  "incomplete"
])
export type ReceiptOutcome = typeof ReceiptOutcome.Type

/** One line of the record. */
export const Receipt = Schema.Struct({
  key: SubmissionKey,
  /** Sequence number of complete requests with this key, from 1. 0 for an incomplete request. */
  receipt: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
  at: Instant,
  outcome: ReceiptOutcome,
  /** Faults that struck the receipt or its answer, by name. */
  faults: Schema.Array(Schema.String),
  type: Schema.optionalKey(Schema.String),
  /** SHA-256 of the body in hexadecimal, to compare receipts of a key. The payload is not recorded. */
  body_sha256: Schema.optionalKey(Schema.String),
  settlement: Schema.optionalKey(SandboxOutcome),
  /** Faults that the payload asks for. After a restart, status reads need them. */
  instructed: Schema.optionalKey(InstructedFaults)
})
export type Receipt = typeof Receipt.Type

/** The record cannot be read or written. A submission without a receipt in the record has no effect. */
export class RecordFailed extends Schema.TaggedError<RecordFailed>()("RecordFailed", {
  message: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {}

/** An append-only record. */
export interface SubmissionRecord {
  /**
   * Takes the next position in the record when it is called. The effect completes when the receipt is durable. After one
   * failure every later append fails, because the content of the disk is then unknown.
   */
  readonly append: (receipt: Receipt) => Effect.Effect<void, RecordFailed>
  /** Every durable receipt, in order. */
  readonly receipts: Effect.Effect<ReadonlyArray<Receipt>, RecordFailed>
  /** Every durable receipt, in order, as lines of JSON. */
  readonly lines: () => Readable
}

const ReceiptLine = Schema.fromJsonString(Receipt)

/** Encodes a receipt as a line of JSON, without the newline. */
export const encodeReceipt = Schema.encodeSync(ReceiptLine)

/** Decodes a line of the record. Fails on excess members, which `encodeReceipt` never writes. */
export const decodeReceipt = Schema.decodeResult(ReceiptLine, { onExcessProperty: "error" })

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
