/**
 * From the values of a row straight to checked JSON, at a fraction of the cost of the schema.
 *
 * For each row the result equals the schema's encoding of `fromRow`, or both refuse. A property holds the two together.
 */
import * as Effect from "effect/Effect"
import { type EncodedOperation, type EncodedOperations, MalformedOperation } from "../../../domain/EncodedOperation.ts"
import {
  isTerminal,
  type Operation,
  type OperationId,
  operationStates,
  submissionUncertain
} from "../../../domain/Operation.ts"
import {
  failureCodePattern,
  idPattern,
  isStorableText,
  maxMessageLength,
  maxNameLength,
  typePattern
} from "../../../domain/OperationForm.ts"
import { formatTimestamp } from "../../../domain/Timestamp.ts"
import { columnAt, fromRow, rowOf } from "../OperationRow.ts"

/** The values of a row. It begins with `publicColumns`. */
export type Values = ReadonlyArray<unknown>

interface KnownState {
  readonly terminal: boolean
  readonly failed: boolean
  /** The members that are functions of the state. */
  readonly json: string
}

const knownStates: ReadonlyMap<unknown, KnownState> = new Map(operationStates.map((state) => {
  const terminal = isTerminal(state)
  const uncertain = submissionUncertain(state)
  return [state, {
    terminal,
    failed: state === "failed",
    json: `"state":"${state}","terminal":${terminal},"submission_uncertain":${uncertain}`
  }]
}))

const isId = (value: unknown): value is OperationId => typeof value === "string" && idPattern.test(value)

/** A pattern of names permits no character that JSON escapes. */
const isName = (value: unknown, pattern: RegExp): value is string =>
  typeof value === "string" && value.length <= maxNameLength && pattern.test(value)

const isRevision = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 1

const isMessage = (value: unknown): value is string =>
  typeof value === "string" && value.length >= 1 && value.length <= maxMessageLength && isStorableText(value)

/** The last instant of `Date`, and the distance of the first one. */
const maxMillis = 8.64e15

/** Milliseconds since the epoch. NaN for infinity, for dates outside the range of `Date`, and for other values. */
const millisOf = (value: unknown): number => {
  // Whole, as `Date` counts.
  if (typeof value === "number") return Math.abs(value) <= maxMillis ? Math.trunc(value) : Number.NaN
  return value instanceof Date ? value.getTime() : Number.NaN
}

/** The last update, in milliseconds and as text. */
interface Update {
  readonly at: number
  readonly text: string
}

/** The member `completed_at`; null if it does not agree with the state. Most operations complete with their last update. */
const completionJson = (completed: unknown, { terminal }: KnownState, updated: Update): string | null => {
  if ((completed !== null) !== terminal) return null
  if (completed === null) return "null"
  const at = millisOf(completed)
  if (at === updated.at) return `"${updated.text}"`
  return Number.isNaN(at) ? null : `"${formatTimestamp(at)}"`
}

/** The member `failure`; null if it is malformed, or does not agree with the state. A row with one half has none. */
const failureJson = (code: unknown, message: unknown, { failed }: KnownState): string | null => {
  const none = code === null || message === null
  if (none === failed) return null
  if (none) return "null"
  return isName(code, failureCodePattern) && isMessage(message)
    ? `{"code":"${code}","message":${JSON.stringify(message)}}`
    : null
}

/** The operation of a row; null if it breaks the contract. */
const rowJson = (row: Values): string | null => {
  const state = knownStates.get(row[columnAt.state])
  const id = row[columnAt.id]
  const type = row[columnAt.type]
  const revision = row[columnAt.revision]
  const review = row[columnAt.under_review]
  const created = millisOf(row[columnAt.created_at])
  const updated = millisOf(row[columnAt.updated_at])
  if (
    state === undefined || !isId(id) || !isName(type, typePattern) || !isRevision(revision)
    || typeof review !== "boolean" || Number.isNaN(created) || Number.isNaN(updated)
  ) return null
  const updatedAt = formatTimestamp(updated)
  const completion = completionJson(row[columnAt.completed_at], state, { at: updated, text: updatedAt })
  const failure = failureJson(row[columnAt.failure_code], row[columnAt.failure_message], state)
  if (completion === null || failure === null) return null
  return `{"id":"${id}","type":"${type}",${state.json},"under_review":${review},"revision":${revision},"created_at":"${
    formatTimestamp(created)
  }","updated_at":"${updatedAt}","completed_at":${completion},"failure":${failure}}`
}

const malformed = (row: Values): Effect.Effect<never, MalformedOperation> =>
  Effect.fail(MalformedOperation.of(row[columnAt.id]))

/** The operation of a row that `rowJson` has checked. */
class EncodedRow implements EncodedOperation {
  readonly json: string
  readonly #row: Values

  constructor(json: string, row: Values) {
    this.json = json
    this.#row = row
  }

  get terminal(): boolean {
    return this.#row[columnAt.completed_at] !== null
  }

  get revision(): number {
    return this.#row[columnAt.revision] as number
  }

  get under_review(): boolean {
    return this.#row[columnAt.under_review] as boolean
  }

  get updated_at(): number {
    return millisOf(this.#row[columnAt.updated_at])
  }

  get operation(): Operation {
    return fromRow(rowOf(this.#row))
  }
}

/** Encodes the operation of a row. */
export const encodeRow = (row: Values): Effect.Effect<EncodedOperation, MalformedOperation> => {
  const json = rowJson(row)
  return json === null ? malformed(row) : Effect.succeed(new EncodedRow(json, row))
}

/** The operations of rows that `rowJson` has checked. */
class EncodedRows implements EncodedOperations {
  readonly json: string
  readonly #rows: ReadonlyArray<Values>

  constructor(json: string, rows: ReadonlyArray<Values>) {
    this.json = json
    this.#rows = rows
  }

  get count(): number {
    return this.#rows.length
  }

  get operations(): ReadonlyArray<Operation> {
    return this.#rows.map((row) => fromRow(rowOf(row)))
  }
}

/** Encodes the operations of a page. */
export const encodeRows = (rows: ReadonlyArray<Values>): Effect.Effect<EncodedOperations, MalformedOperation> => {
  let json = ""
  for (const row of rows) {
    const operation = rowJson(row)
    if (operation === null) return malformed(row)
    json += json === "" ? operation : `,${operation}`
  }
  return Effect.succeed(new EncodedRows(`[${json}]`, rows))
}
