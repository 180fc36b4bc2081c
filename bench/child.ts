/**
 * The processes of a benchmark: each server and the load generator has its own, so that none slows another's event loop.
 */
import { Effect } from "effect"
import { type ChildProcess, fork, spawnSync } from "node:child_process"
import * as os from "node:os"
import { fileURLToPath } from "node:url"

/** How a server process finds the database. It comes as JSON in the first argument. */
export interface ServerConfig {
  readonly socketDirectory: string
  readonly port: number
  readonly username: string
  readonly database: string
  /** Whether the peer names its statements, so that PostgreSQL plans each once a connection. */
  readonly preparedPeer: boolean
}

export interface ServerProcess {
  readonly pid: number
  /** On 127.0.0.1. */
  readonly port: number
}

/** Milliseconds that a process has to end after SIGTERM, before SIGKILL. */
const patience = 5000

const stop = (child: ChildProcess) =>
  Effect.callback<void>((resume) => {
    if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
    const kill = setTimeout(() => child.kill("SIGKILL"), patience)
    child.once("exit", () => {
      clearTimeout(kill)
      resume(Effect.void)
    })
    child.kill("SIGTERM")
  })

export interface ProcessOptions {
  readonly arguments?: ReadonlyArray<string>
  /** For Node. */
  readonly flags?: ReadonlyArray<string>
  /** Stays on the last CPU, where `taskset` exists. */
  readonly pinned?: boolean
}

/** Starts a script of this directory; it is stopped when the scope closes. */
export const startProcess = (script: string, options: ProcessOptions) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const { arguments: args = [], flags = [], pinned = false } = options
      const execution = pinned && spawnSync("taskset", ["--version"]).status === 0
        ? { execPath: "taskset", execArgv: ["-c", String(os.cpus().length - 1), process.execPath, ...flags] }
        : { execArgv: [...flags] }
      return fork(fileURLToPath(new URL(script, import.meta.url)), args, execution)
    }),
    stop
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

/** Starts a server script and waits until it listens. */
export const startServer = Effect.fnUntraced(
  function*(script: string, config: ServerConfig, flags: ReadonlyArray<string> = []) {
    const child = yield* startProcess(script, { arguments: [JSON.stringify(config)], flags })
    const { port } = yield* nextMessage<{ readonly port: number }>(child)
    return { pid: child.pid!, port } satisfies ServerProcess
  }
)

/** For the scripts: what they were started with. The process ends when its parent is gone. */
export const serverConfig = (): ServerConfig => {
  process.once("disconnect", () => process.exit())
  return JSON.parse(process.argv[2]!) as ServerConfig
}

/** For the scripts: tells the parent that the server listens. */
export const reportPort = (port: number): void => void process.send?.({ port })
