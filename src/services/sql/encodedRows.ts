/**
 * From the values of a row straight to checked JSON, at a fraction of the cost of the schema.
 *
 * For each row the result equals the schema's encoding of `fromRow`, or both refuse. A property holds the two together.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { type EncodedOperation, type EncodedPage, MalformedOperation } from "../../domain/EncodedOperation.ts"
import { isTerminal, type OperationId, operationStates, submissionUncertain } from "../../domain/Operation.ts"
import {
  failureCodePattern,
  idPattern,
  isStorableText,
  maxMessageLength,
  maxNameLength,
  typePattern
} from "../../domain/OperationForm.ts"
import { formatTimestamp } from "../../domain/Timestamp.ts"
import { columnAt } from "./OperationRow.ts"

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

/** Encodes the operation of a row. */
export const encodeRow = (row: Values): Effect.Effect<EncodedOperation, MalformedOperation> => {
  const json = rowJson(row)
  if (json === null) return malformed(row)
  return Effect.succeed({
    json,
    terminal: row[columnAt.completed_at] !== null,
    // `rowJson` has checked the types.
    revision: row[columnAt.revision] as number,
    under_review: row[columnAt.under_review] as boolean,
    updated_at: millisOf(row[columnAt.updated_at])
  })
}

/** Encodes a page from up to one row more than it holds, newest first. */
export const encodeRows = (
  rows: ReadonlyArray<Values>,
  pageSize: number
): Effect.Effect<EncodedPage, MalformedOperation> => {
  const count = Math.min(rows.length, pageSize)
  let json = ""
  for (let at = 0; at < count; at++) {
    const row = rowJson(rows[at]!)
    if (row === null) return malformed(rows[at]!)
    json += at === 0 ? row : `,${row}`
  }
  return Effect.succeed({ json: `[${json}]`, count, next: rows.length > pageSize ? cursorOf(rows[count - 1]!) : null })
}

/** The place of a row that `rowJson` has checked. */
const cursorOf = (row: Values) => ({
  created_at: DateTime.makeUnsafe(millisOf(row[columnAt.created_at])),
  id: row[columnAt.id] as OperationId
})
