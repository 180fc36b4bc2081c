/**
 * The options of a benchmark's command line. A wrong one ends the process with one line and status 2.
 */
import * as fs from "node:fs"
import { fileURLToPath } from "node:url"
import { parseArgs, type ParseArgsOptionsConfig } from "node:util"

export const fail = (message: string): never => {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}

/** The comment at the start of a script is its help. */
const helpOf = (scriptUrl: string): string => {
  const source = fs.readFileSync(fileURLToPath(scriptUrl), "utf8")
  const comment = source.slice(source.indexOf("/**") + 4, source.indexOf(" */"))
  return comment.replaceAll(/^ \* ?/gm, "")
}

/** Parses the options of the script with this URL. `--help` prints the first comment of the script. */
export const readOptions = <Config extends ParseArgsOptionsConfig>(scriptUrl: string, config: Config) => {
  try {
    const options = { ...config, help: { type: "boolean", default: false } } as const
    const { values } = parseArgs({ options })
    if (!("help" in values) || values.help !== true) return values
  } catch (error) {
    return fail(`${error instanceof Error ? error.message : String(error)}; --help lists the options`)
  }
  process.stdout.write(helpOf(scriptUrl))
  return process.exit(0)
}

/** A number within limits. */
export const readNumber = (flag: string, text: string, from: number, to: number): number => {
  const value = Number(text)
  return text.trim() !== "" && value >= from && value <= to
    ? value
    : fail(`${flag} must be a number from ${from} to ${to}`)
}
