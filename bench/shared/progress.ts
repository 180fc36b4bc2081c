import { Effect } from "effect"

/** Writes a line of progress to stderr. */
export const say = (line: string) => Effect.sync(() => process.stderr.write(`${line}\n`))
