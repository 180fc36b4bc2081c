import { Effect } from "effect"
import { aboveBar } from "../../src/cli/screen/ProgressBar.ts"

/** Writes a line to stderr, above the bar if there is one. */
export const say = (line: string) => aboveBar(Effect.sync(() => void process.stderr.write(`${line}\n`)))
