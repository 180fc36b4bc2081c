/**
 * The processes of a benchmark. Each server and the load generator has a process of its own, so that none slows the
 * event loop of another.
 */
import { Effect } from "effect"
import { type ChildProcess, fork, spawnSync } from "node:child_process"
import * as os from "node:os"
import { fileURLToPath } from "node:url"

/** The address of the database for a process. */
export interface DatabaseAddress {
  readonly socketDirectory: string
  readonly port: number
  readonly username: string
  readonly database: string
}

/** Milliseconds that a process has to end after SIGTERM, before SIGKILL. */
const patience = 5000

/** Ends a process, and waits for its end. */
export const stopProcess = (child: ChildProcess) =>
  Effect.callback<void>((resume) => {
    if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
    const kill = setTimeout(() => child.kill("SIGKILL"), patience)
    child.once("exit", () => {
      clearTimeout(kill)
      resume(Effect.void)
    })
    child.kill("SIGTERM")
  })

interface ProcessOptions {
  readonly arguments?: ReadonlyArray<string>
  /** Flags of Node. */
  readonly flags?: ReadonlyArray<string>
  /** Pins the process to the last CPU, if `taskset` exists. */
  readonly pinned?: boolean
}

/** Starts a script, given by its path within `bench`, and stops it when the scope closes. */
export const startProcess = (script: string, options: ProcessOptions) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const { arguments: args = [], flags = [], pinned = false } = options
      const execution = pinned && spawnSync("taskset", ["--version"]).status === 0
        ? { execPath: "taskset", execArgv: ["-c", String(os.cpus().length - 1), process.execPath, ...flags] }
        : { execArgv: [...flags] }
      return fork(fileURLToPath(new URL(`../${script}`, import.meta.url)), args, execution)
    }),
    stopProcess
  )

/** The next message of a process. Dies when the process ends instead. */
export const nextMessage = <Message>(child: ChildProcess): Effect.Effect<Message> =>
  Effect.callback<Message>((resume) => {
    const onMessage = (message: unknown) => {
      child.off("exit", onExit)
      resume(Effect.succeed(message as Message))
    }
    const onExit = () => {
      child.off("message", onMessage)
      resume(Effect.die(new Error(`${child.spawnargs.join(" ")} ended early`)))
    }
    child.once("message", onMessage)
    child.once("exit", onExit)
  })

/** Starts a script with a configuration, and waits for its first message, which means that it is ready. */
export const startReady = Effect.fnUntraced(
  function*<Message>(script: string, config: object, flags: ReadonlyArray<string> = []) {
    const child = yield* startProcess(script, { arguments: [JSON.stringify(config)], flags })
    return { child, pid: child.pid!, message: yield* nextMessage<Message>(child) }
  }
)

/** For the scripts: reads their configuration. The process ends when its parent ends. */
export const configuration = <Config>(): Config => {
  process.once("disconnect", () => process.exit())
  return JSON.parse(process.argv[2]!) as Config
}

/** For the scripts: sends a message to the parent. The first one means that the script is ready. */
export const report = (message: object): void => void process.send?.(message)

/** For the scripts: reports to the parent that the server listens. */
export const reportPort = (port: number): void => report({ port })
