/**
 * The sandbox's own record of every submission that it received. Tests check "at most once" against it. It is in memory, or in a file of
 * JSON lines, to which the sandbox only appends.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { constants, createReadStream } from "node:fs"
import * as fs from "node:fs/promises"
import * as path from "node:path"
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
  "incomplete",
  /** It was cancelled, or approved by a person at the bank. Not a submission, and not counted. */
  "cancelled",
  "approved"
])
export type ReceiptOutcome = typeof ReceiptOutcome.Type

/** One line of the record. */
export const Receipt = Schema.Struct({
  key: SubmissionKey,
  /** Sequence number of complete requests with this key, from 1. 0 for what is not counted. */
  receipt: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
  at: Instant,
  outcome: ReceiptOutcome,
  /** Faults that struck the receipt or its answer, by name. */
  faults: Schema.Array(Schema.String),
  type: Schema.optionalKey(Schema.String),
  /** The order cannot pay: it only occupies the key. */
  fence: Schema.optionalKey(Schema.Literal(true)),
  /** SHA-256 of the body in hexadecimal, to compare receipts of a key. The sandbox records no payload. */
  body_sha256: Schema.optionalKey(Schema.String),
  settlement: Schema.optionalKey(SandboxOutcome),
  /** What later answers repeat of the request: see `Dialect`. */
  echo: Schema.optionalKey(Schema.Json),
  /** Faults that the payload asks for. After a restart, status reads need them. */
  instructed: Schema.optionalKey(InstructedFaults)
})
export type Receipt = typeof Receipt.Type

/** The record cannot be read or written. A submission without a receipt in the record has no effect. */
export class RecordFailed extends Schema.TaggedError<RecordFailed>()("RecordFailed", {
  message: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {}

export interface SubmissionRecord {
  /**
   * Takes the next position in the record when it is called. The effect completes when the receipt is durable. After one
   * failure every later append fails, because the content of the disk is then unknown.
   */
  readonly append: (receipt: Receipt) => Effect.Effect<void, RecordFailed>
  readonly receipts: Effect.Effect<ReadonlyArray<Receipt>, RecordFailed>
  /** Every durable receipt, in order, as lines of JSON. */
  readonly lines: () => Readable
}

const ReceiptLine = Schema.fromJsonString(Receipt)

/** Encodes a receipt as a line of JSON, without the newline. */
const encodeReceipt = Schema.encodeSync(ReceiptLine)

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

const attempt = <A>(message: string, evaluate: () => Promise<A>): Effect.Effect<A, RecordFailed> =>
  Effect.tryPromise({
    try: evaluate,
    catch: (cause) =>
      cause instanceof RecordFailed
        ? cause
        : new RecordFailed({ message: `${message}: ${cause instanceof Error ? cause.message : String(cause)}`, cause })
  })

/**
 * Opens the record, and creates the file and its directory if they are missing. A crash may leave an incomplete last
 * line. Its request was never answered, so it is cut off, with a warning. Fails when any other line is not a receipt.
 *
 * Only one sandbox may write to a file: two would count the receipts of a key separately.
 */
export const openFileRecord = (file: string): Effect.Effect<SubmissionRecord, RecordFailed, Scope.Scope> =>
  Effect.gen(function*() {
    const handle = yield* Effect.acquireRelease(
      attempt(`Could not open the record ${file}`, () => openDurably(file)),
      (handle) => Effect.promise(() => handle.close().catch(() => {}))
    )
    const { lost, size } = yield* attempt(`Could not read the record ${file}`, () => cutTornLine(handle))
    if (lost > 0) {
      yield* Effect.annotateLogs(Effect.logWarning("Cut off an incomplete last line of the record"), {
        file,
        bytes: lost
      })
    }
    const writer = groupCommit(handle, size)
    // The handle is closed after this: finalizers run in reverse.
    yield* Effect.addFinalizer(() => Effect.promise(writer.idle))
    const lines = () => (writer.size() === 0 ? Readable.from([]) : createReadStream(file, { end: writer.size() - 1 }))
    return {
      append: (receipt) => {
        const durable = writer.append(`${encodeReceipt(receipt)}\n`)
        return attempt(`Could not write the record ${file}`, () => durable)
      },
      receipts: attempt(`Could not read the record ${file}`, () => parse(lines())),
      lines
    }
  })

/** Does not follow a symbolic link, because another user may have put it into the directory. */
const appendHere = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW

/** Opens the file and syncs its directory, so that the entry of a new file is durable, too. */
const openDurably = async (file: string): Promise<fs.FileHandle> => {
  const directory = path.dirname(file)
  await fs.mkdir(directory, { recursive: true })
  const handle = await fs.open(file, appendHere, 0o600)
  const parent = await fs.open(directory, "r")
  await parent.sync().finally(() => parent.close())
  return handle
}

const newline = 10
const step = 65_536

/** Truncates the file after its last complete line. Returns its size and the number of bytes cut off. */
const cutTornLine = async (handle: fs.FileHandle): Promise<{ readonly size: number; readonly lost: number }> => {
  const { size } = await handle.stat()
  for (let end = size; end > 0;) {
    const start = Math.max(0, end - step)
    const chunk = Buffer.alloc(end - start)
    await handle.read(chunk, 0, chunk.length, start)
    const at = chunk.lastIndexOf(newline)
    if (at >= 0) return truncate(handle, size, start + at + 1)
    end = start
  }
  return truncate(handle, size, 0)
}

const truncate = async (handle: fs.FileHandle, size: number, keep: number) => {
  if (keep < size) {
    await handle.truncate(keep)
    await handle.datasync()
  }
  return { size: keep, lost: size - keep }
}

const parse = async (stream: Readable): Promise<ReadonlyArray<Receipt>> => {
  const receipts: Array<Receipt> = []
  for await (const line of linesOf(stream)) {
    const receipt = decodeReceipt(line)
    if (Result.isFailure(receipt)) {
      throw new RecordFailed({ message: `line ${receipts.length + 1} of the record is not a receipt` })
    }
    receipts.push(receipt.success)
  }
  return receipts
}

/** Splits at newlines only. `node:readline` also splits at separators that JSON permits inside strings. */
async function* linesOf(stream: Readable): AsyncGenerator<string> {
  let rest = ""
  for await (const chunk of stream.setEncoding("utf8")) {
    const lines = (rest + chunk).split("\n")
    rest = lines.pop()!
    yield* lines
  }
}

/**
 * Appends lines. Those that arrive during a write are written together, so that one sync serves many. After a failure, every
 * later append fails.
 */
const groupCommit = (handle: fs.FileHandle, start: number) => {
  let size = start
  let last: Promise<unknown> = Promise.resolve()
  let next: { readonly lines: Array<string>; readonly written: Promise<void> } | null = null
  const write = async (lines: ReadonlyArray<string>) => {
    next = null
    const bytes = Buffer.from(lines.join(""))
    await handle.appendFile(bytes)
    await handle.datasync()
    size += bytes.length
  }
  return {
    /** Bytes that are durable. */
    size: () => size,
    /** Resolves when no write is under way. */
    idle: () => last.catch(() => {}),
    append: (line: string): Promise<void> => {
      if (next === null) {
        const lines: Array<string> = []
        // Includes the other lines of this turn of the event loop.
        const written = Promise.all([last, new Promise(setImmediate)]).then(() => write(lines))
        // A rejection that no caller awaits would end the process.
        written.catch(() => {})
        last = written
        next = { lines, written }
      }
      next.lines.push(line)
      return next.written
    }
  }
}
