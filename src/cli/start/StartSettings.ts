/**
 * Settings that Node reads only when it starts: V8 flags and environment variables of its allocator. The program sets them
 * itself: it replaces its process by one with the settings (`execve`), which keeps process id, signals, standard streams and
 * exit code.
 *
 * All that is loaded before the restart is loaded twice, so this module imports only what is built into Node.
 */
import * as fs from "node:fs"
import { fileURLToPath } from "node:url"

/** Settings of a command. A flag or variable that the user sets has priority. */
export interface StartSettings {
  /** Such as `--max-semi-space-size=16`. */
  readonly flags: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string>>
}

/**
 * Settings of each command. A command without settings does not restart.
 *
 * `serve` has a young generation of half the default size (in MiB). Under load that takes 20 to 70 MiB less memory, and a
 * tenth more CPU time for lists. Fewer arenas of glibc (`MALLOC_ARENA_MAX`) changed nothing.
 */
export const startSettings: Readonly<Record<string, StartSettings>> = {
  serve: { flags: ["--max-semi-space-size=16"], environment: {} }
}

/** How a process was started. */
export interface Start {
  /** Options of Node, as in `process.execArgv`. */
  readonly nodeOptions: ReadonlyArray<string>
  /** The program, as in `process.argv[1]`. */
  readonly program: string
  readonly args: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** V8 accepts `_` for `-` in names. */
const nameOf = (flag: string): string => flag.split("=", 1)[0]!.replaceAll("_", "-")

/** Settings of the command in the arguments. Flags may come before its name. */
const settingsOf = (args: ReadonlyArray<string>, table: Readonly<Record<string, StartSettings>>): StartSettings => {
  const command = args.find((arg) => Object.hasOwn(table, arg))
  return command === undefined ? { flags: [], environment: {} } : table[command]!
}

/** The start with all settings. Null if it has them already, so that a restarted process does not restart. */
export const withSettings = (
  start: Start,
  table: Readonly<Record<string, StartSettings>>,
  program = start.program
): Start | null => {
  const settings = settingsOf(start.args, table)
  const given = [...start.nodeOptions, ...(start.environment["NODE_OPTIONS"] ?? "").split(/\s+/)].map(nameOf)
  const flags = settings.flags.filter((flag) => !given.includes(nameOf(flag)))
  const variables = Object.entries(settings.environment).filter(([name]) => start.environment[name] === undefined)
  if (flags.length === 0 && variables.length === 0 && program === start.program) return null
  return {
    nodeOptions: [...start.nodeOptions, ...flags],
    program,
    args: start.args,
    environment: { ...start.environment, ...Object.fromEntries(variables) }
  }
}

/** The program as modules, in the folder of the build. */
const modules = fileURLToPath(new URL("../../main.modules.js", import.meta.url))

/**
 * The file to run. Adapters of `--providers` import Effect and this package from the packages of their project. The bundle has
 * copies of both, perhaps of another version, so the modules run instead. Without modules beside it, the bundle runs.
 */
export const programFor = ({ args, program }: Start, modular = modules): string => {
  const loadsAdapters = args.some((arg) => arg === "--providers" || arg.startsWith("--providers="))
  return loadsAdapters && fs.existsSync(modular) ? modular : program
}

/**
 * Restarts this process if it lacks settings. It does nothing on Windows, which has no `execve`, and in a process with an IPC
 * channel, which would be lost: its parent chooses the options. `table` is `startSettings` except in tests.
 */
export const restart = (table = startSettings): void => {
  const { execve } = process
  const [, program] = process.argv
  if (execve === undefined || program === undefined || process.channel !== undefined) return
  const start = { nodeOptions: process.execArgv, program, args: process.argv.slice(2), environment: process.env }
  const next = withSettings(start, table, programFor(start))
  if (next === null) return
  execve.call(
    process,
    process.execPath,
    [process.argv0, ...next.nodeOptions, next.program, ...next.args],
    next.environment
  )
}
