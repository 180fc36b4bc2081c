/**
 * The rules for the text members of an operation. The schema in `Operation.ts` states them, and the serializer of rows
 * (`services/sql/reads/encodedRows.ts`) applies the same.
 */

/** A UUIDv7 (RFC 9562 §5.7) in its canonical lower-case form. */
export const idPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u

export const typePattern = /^[a-z][a-z0-9_.]*$/u

export const failureCodePattern = /^[a-z][a-z0-9_]*$/u

/** Most UTF-16 units of a type and of a failure code. */
export const maxNameLength = 64

/** Most UTF-16 units of a failure message. */
export const maxMessageLength = 1024

/** Whether PostgreSQL can keep the text, and JSON in UTF-8 can carry it. */
export const isStorableText = (text: string): boolean => text.isWellFormed() && !text.includes("\0")
