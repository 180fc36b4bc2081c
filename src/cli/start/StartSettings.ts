/**
 * Settings of V8 that Node reads only when it starts. The program sets them itself: it replaces its process by one with the
 * settings (`execve`), which keeps process id, signals, standard streams and exit code.
 *
 * The room `cli/start`: what happens before the program is loaded. Read this file first.
 *
 * All that is loaded before the restart is loaded twice, so this module imports only what is built into Node, and `src/main.ts`
 * imports it before the commands.
 */
import * as fs from "node:fs"
import { fileURLToPath } from "node:url"
import * as v8 from "node:v8"

/**
 * V8 flags of each command. A flag that the user sets has priority. A command without flags does not restart.
 *
 * `serve` has a young generation of half the default size (in MiB). Under load that takes 20 to 70 MiB less memory, and a
 * tenth more CPU time for lists. Fewer arenas of glibc (`MALLOC_ARENA_MAX`) changed nothing.
 */
export const startSettings: Readonly<Record<string, ReadonlyArray<string>>> = { serve: ["--max-semi-space-size=16"] }

/** How a process was started. */
export interface Start {
  /** Options of Node, as in `process.execArgv`. */
  readonly nodeOptions: ReadonlyArray<string>
  /** The program, as in `process.argv[1]`. */
  readonly program: string
  readonly args: ReadonlyArray<string>
  readonly environment: NodeJS.ProcessEnv
}

/** V8 accepts `_` for `-` in names. */
const nameOf = (flag: string): string => flag.split("=", 1)[0]!.replaceAll("_", "-")

/** The program as modules, in the folder of the build. */
const modules = fileURLToPath(new URL("../../main.modules.js", import.meta.url))

/**
 * The file to run. Adapters of `--providers` import Effect and this package from the packages of their project. The bundle has
 * copies of both, perhaps of another version, so the modules run instead. Without modules beside it, the bundle runs.
 */
const programFor = ({ args, program }: Start, modular: string): string => {
  const loadsAdapters = args.some((arg) => arg === "--providers" || arg.startsWith("--providers="))
  return loadsAdapters && fs.existsSync(modular) ? modular : program
}

/**
 * The start with all settings. Null if it has them already, so that a restarted process does not restart. Flags may come before the
 * name of the command.
 */
export const withSettings = (start: Start, modular = modules): Start | null => {
  const command = start.args.find((arg) => Object.hasOwn(startSettings, arg))
  const given = [...start.nodeOptions, ...(start.environment["NODE_OPTIONS"] ?? "").split(/\s+/)].map(nameOf)
  const flags = command === undefined ? [] : startSettings[command]!.filter((flag) => !given.includes(nameOf(flag)))
  const program = programFor(start, modular)
  if (flags.length === 0 && program === start.program) return null
  return { ...start, nodeOptions: [...start.nodeOptions, ...flags], program }
}

/**
 * Restarts this process if it lacks settings. It does nothing on Windows, which has no `execve`, and in a process with an IPC
 * channel, which would be lost: its parent chooses the options.
 */
export const restart = (): void => {
  const { execve } = process
  const [, program] = process.argv
  if (execve === undefined || program === undefined || process.channel !== undefined) return
  const start = { nodeOptions: process.execArgv, program, args: process.argv.slice(2), environment: process.env }
  const next = withSettings(start)
  if (next === null) return
  execve.call(process, process.execPath, [process.argv0, ...next.nodeOptions, next.program, ...next.args], process.env)
}

// The sources run as they are started.
if (!import.meta.url.endsWith(".ts")) restart()

// What a program makes while it starts stays. V8 would grow the young generation for it, and an idle process would keep 30 MiB.
// `runProgram` lets it grow after the start, and a server when it listens.
v8.setFlagsFromString("--semi-space-growth-factor=1")
