/** Starts the gateway's command `serve`, as operators run it. */
import { Effect, type Scope } from "effect"
import { spawn } from "node:child_process"
import { freePort } from "./freePort.ts"
import { forget, probeFlags } from "./probing.ts"
import { type DatabaseAddress, stopProcess } from "./processes.ts"

interface GatewayOptions {
  readonly database: DatabaseAddress
  /** The file to run: see `command.ts`. */
  readonly command: string
  /** Settings besides the database, the address and the log level. */
  readonly environment?: Readonly<Record<string, string>>
  /** Flags of Node. */
  readonly flags?: ReadonlyArray<string>
  /** Whether it loads `probe.ts`. */
  readonly isProbed?: boolean
}

export interface Gateway {
  readonly pid: number
  /** On 127.0.0.1. */
  readonly port: number
}

const databaseUrl = ({ database, port, socketDirectory, username }: DatabaseAddress): string =>
  `postgres://${username}@localhost:${port}/${database}?host=${encodeURIComponent(socketDirectory)}`

const isReady = (port: number) =>
  Effect.promise(() =>
    fetch(`http://127.0.0.1:${port}/readyz`).then(async (response) => {
      await response.text()
      return response.status === 200
    }, () => false)
  )

/** Starts a gateway, waits until `/readyz` is 200, and stops it when the scope closes. */
export const startGateway = Effect.fnUntraced(
  function*({ command, database, environment = {}, flags = [], isProbed = false }: GatewayOptions): Effect.fn.Return<
    Gateway,
    never,
    Scope.Scope
  > {
    const port = yield* freePort
    const env = {
      ...process.env,
      DATABASE_URL: databaseUrl(database),
      PORT: String(port),
      // The audience of tokens, whatever the port.
      BASE_URL: "http://127.0.0.1",
      LOG_LEVEL: "Error",
      ...environment
    }
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [...flags, ...isProbed ? probeFlags : [], command, "serve"], {
          env,
          stdio: ["ignore", "ignore", "inherit"]
        })
      ),
      (child) => Effect.andThen(stopProcess(child), forget(child.pid!))
    )
    while (!(yield* isReady(port))) {
      if (child.exitCode !== null) return yield* Effect.die(new Error("the gateway ended while it started"))
      yield* Effect.sleep("50 millis")
    }
    return { pid: child.pid!, port }
  }
)
