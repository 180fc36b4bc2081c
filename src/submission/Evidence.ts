import type * as Schema from "effect/Schema"

/** As it goes into the history. */
export interface Evidence {
  readonly [member: string]: Schema.Json
}

/** Levels of arrays and objects: PostgreSQL and JavaScript give up somewhere, and no honest answer comes near. */
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
 * What a provider answered, as evidence. An answer that the ledger could not keep, being too deep or too long, must not
 * keep the outcome from being recorded: it is left out, and the evidence says so.
 */
export const answered = (by: "submission" | "status_read", answer: Schema.Json): Evidence => {
  // Adapters in JavaScript may forget it.
  if (answer === undefined) return { by, answer_omitted: "there was none" }
  if (isDeep(answer)) return { by, answer_omitted: `nested more than ${deepest} levels deep` }
  const { length } = JSON.stringify(answer)
  return length > longest ? { by, answer_omitted: `${length} characters long` } : { by, answer }
}
