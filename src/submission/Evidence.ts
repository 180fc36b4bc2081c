import type * as Schema from "effect/Schema"

/** The justification of a transition, as the history stores it. */
export interface Evidence {
  readonly [member: string]: Schema.Json
}

/**
 * Levels of arrays and objects. PostgreSQL and JavaScript fail on very deep values; answers of providers have few
 * levels.
 */
const deepest = 64

/** UTF-16 code units of the JSON text. */
const longest = 65_536

const isDeep = (value: Schema.Json): boolean => {
  let level: ReadonlyArray<Schema.Json> = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > deepest) return true
    level = level.flatMap((item) => typeof item === "object" && item !== null ? Object.values(item) : [])
  }
  return false
}

/**
 * Makes evidence of a provider's answer. An answer that is too deep or too long for the ledger must not prevent the
 * record of the outcome. It is left out, and `answer_omitted` gives the reason.
 */
export const answered = (by: "submission" | "status_read", answer: Schema.Json): Evidence => {
  // An adapter without type checks may leave it out.
  if (answer === undefined) return { by, answer_omitted: "the adapter gave none" }
  if (isDeep(answer)) return { by, answer_omitted: `nested more than ${deepest} levels deep` }
  const { length } = JSON.stringify(answer)
  return length > longest ? { by, answer_omitted: `${length} characters long` } : { by, answer }
}
