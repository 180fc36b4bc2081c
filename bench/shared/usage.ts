/**
 * The options of the commands of developers. The help of a command is the comment at the start of its script, and a line for each
 * option. An invalid call ends the process with one line on standard error and exit code 1.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"

/** An option that a command takes. */
export interface Option<A> {
  /** What it does, with its range and default, as in the help. */
  readonly meaning: string
  /** Stands for its value in the help. Null: it takes none. */
  readonly takes: string | null
  /** Its value if it is given without one. Absent: it needs one. */
  readonly bare?: string | undefined
  /** Decodes its values, in the order in which they were given. Throws `InvalidCall`. */
  readonly decode: (given: ReadonlyArray<string | boolean>, flag: string) => A
}

type Options = Readonly<Record<string, Option<unknown>>>
type ValuesOf<Config extends Options> = { readonly [Name in keyof Config]: ReturnType<Config[Name]["decode"]> }

/** The message says what to correct. */
export class InvalidCall extends Error {}

/** An option without a value. */
export const flag = (meaning: string): Option<boolean> => ({
  meaning,
  takes: null,
  decode: (given) => given.length > 0
})

const withDefault = (meaning: string, fallback: string | null) =>
  fallback === null ? meaning : `${meaning} (default ${fallback})`

interface Range<Fallback> {
  readonly from: number
  readonly to: number
  /** Null: the meaning says what applies without the option. */
  readonly default: Fallback
}

const count = (value: number) => value.toLocaleString("en", { useGrouping: value >= 10_000 })

/** A number within a range. */
export const number = <Fallback extends number | null>(
  meaning: string,
  { default: fallback, from, to }: Range<Fallback>,
  takes = "X"
): Option<number | Fallback> => ({
  meaning: withDefault(`${meaning}: ${count(from)} to ${count(to)}`, fallback === null ? null : count(fallback)),
  takes,
  decode: ([...given], flag) => {
    const text = given.pop()
    if (text === undefined) return fallback
    const value = Number(text)
    const isValid = String(text).trim() !== "" && value >= from && value <= to &&
      (takes !== "N" || Number.isInteger(value))
    if (isValid) return value
    throw new InvalidCall(
      `${flag} must be a ${takes === "N" ? "whole " : ""}number from ${count(from)} to ${count(to)}`
    )
  }
})

/** A whole number within a range. */
export const whole = <Fallback extends number | null>(meaning: string, range: Range<Fallback>) =>
  number(meaning, range, "N")

interface TextRules<Fallback> {
  readonly takes: string
  /** Null: the meaning says what applies without the option. */
  readonly default: Fallback
  /** The text if the option is given without one. Absent: it needs one. */
  readonly bare?: string
  /** What is wrong with the text, such as `must be a file`. Null: nothing. */
  readonly problem?: (text: string) => string | null
}

/** A text. */
export const text = <Fallback extends string | null>(
  meaning: string,
  { bare, default: fallback, problem = () => null, takes }: TextRules<Fallback>
): Option<string | Fallback> => ({
  meaning: withDefault(meaning, fallback),
  takes,
  bare,
  decode: (given, flag) => {
    const last = given.at(-1)
    if (last === undefined) return fallback
    const found = last === "" ? "must not be empty" : problem(String(last))
    if (found !== null) throw new InvalidCall(`${flag} ${found}`)
    return String(last)
  }
})

const oneOf = <Choice extends string>(all: ReadonlyArray<Choice>, given: unknown, flag: string): Choice => {
  const found = all.find((one) => one === given)
  if (found === undefined) throw new InvalidCall(`${flag} must be one of ${all.join(", ")}`)
  return found
}

/** One of the choices. Null without the option. */
export const choice = <Choice extends string>(meaning: string, all: ReadonlyArray<Choice>): Option<Choice | null> => ({
  meaning: `${meaning}: ${all.join(", ")}`,
  takes: "NAME",
  decode: (given, flag) => given.length === 0 ? null : oneOf(all, given.at(-1), flag)
})

/** Some of the choices. Without the option: all. */
export const choices = <Choice extends string>(
  meaning: string,
  all: ReadonlyArray<Choice>
): Option<ReadonlyArray<Choice>> => ({
  meaning: `${meaning}: ${all.join(", ")}; may be repeated (default all)`,
  takes: "NAME",
  decode: (given, flag) => given.length === 0 ? all : given.map((text) => oneOf(all, text, flag))
})

/** A file that exists. */
export const existingFile = (meaning: string): Option<string | null> =>
  text(meaning, {
    takes: "FILE",
    default: null,
    problem: (file) => fs.statSync(file, { throwIfNoEntry: false })?.isFile() ? null : `is no file: ${file}`
  })

/** What is wrong with the name of a file that is written at the end: its directory must exist before the work begins. */
export const unwritable = (file: string): string | null =>
  fs.statSync(path.dirname(file), { throwIfNoEntry: false })?.isDirectory()
    ? null
    : `is in a directory that does not exist: ${path.dirname(file)}`

/** Decodes the arguments of a call. Throws `InvalidCall`. */
export const parseOptions = <Config extends Options>(args: ReadonlyArray<string>, config: Config): ValuesOf<Config> => {
  const types = Object.entries(config).map(([name, { takes }]) =>
    [name, { type: takes === null ? "boolean" : "string", multiple: true }] as const
  )
  const complete = args.flatMap((arg, n) => {
    const bare = arg.startsWith("--") ? config[arg.slice(2)]?.bare : undefined
    return bare === undefined || args[n + 1]?.startsWith("-") === false ? [arg] : [arg, bare]
  })
  const parse = (): Readonly<Record<string, ReadonlyArray<string | boolean> | undefined>> => {
    try {
      return parseArgs({ args: complete, options: Object.fromEntries(types) }).values
    } catch (error) {
      throw new InvalidCall(error instanceof Error ? error.message.replaceAll(/\s+/g, " ") : String(error))
    }
  }
  const given = parse()
  const values = Object.entries(config).map(([name, { decode }]) => [name, decode(given[name] ?? [], `--${name}`)])
  return Object.fromEntries(values) as ValuesOf<Config>
}

/** Ends the process with one line and exit code 1. */
export const fail = (message: string): never => {
  process.stderr.write(`error: ${message} (see --help)\n`)
  process.exit(1)
}

/** The comment at the start of a script, and its options. */
export const helpOf = (source: string, config: Options): string => {
  const comment = source.slice(source.indexOf("/**") + 4, source.indexOf(" */")).replaceAll(/^ \* ?/gm, "")
  const left = Object.entries(config).map(([name, { takes }]) => takes === null ? `--${name}` : `--${name} ${takes}`)
  const width = Math.max(...left.map((text) => text.length)) + 2
  const lines = Object.values(config).map(({ meaning }, index) => `  ${left[index]!.padEnd(width)}${meaning}`)
  return `${comment}\nOptions:\n${lines.join("\n")}\n`
}

const help = flag("Shows this text")

/** The options that the process was called with. `--help` prints the help of the script with this URL. */
export const readOptions = <Config extends Options>(scriptUrl: string, config: Config): ValuesOf<Config> => {
  // Before the others are decoded: help is shown beside any wrong value.
  if (process.argv.slice(2).includes("--help")) {
    process.stdout.write(helpOf(fs.readFileSync(fileURLToPath(scriptUrl), "utf8"), { ...config, help }))
    process.exit(0)
  }
  try {
    return parseOptions(process.argv.slice(2), config)
  } catch (error) {
    if (error instanceof InvalidCall) return fail(error.message)
    throw error
  }
}
