/**
 * The side of a process that a `Supervisor` runs: its number, its messages, and its end when the supervisor is gone.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import cluster from "node:cluster"

const numberVariable = "FINANCIAL_AGENTS_GATEWAY_PROCESS"
const patienceVariable = "FINANCIAL_AGENTS_GATEWAY_DRAIN_PATIENCE"

/** The environment of a process: its number, and the milliseconds that it may take to drain. */
export const environmentOf = (number: number, patience: number): Record<string, string> => ({
  [numberVariable]: String(number),
  [patienceVariable]: String(patience)
})

const given = process.env[numberVariable]

/**
 * The number of this process among those of its supervisor, from 1. Null: it has no supervisor, also if another program
 * runs it by `node:cluster`.
 */
export const processNumber: number | null = cluster.isWorker && given !== undefined ? Number(given) : null

/** What a process tells its supervisor. */
export const ProcessMessage = Schema.Union([
  /** Its listener, routes and workers run. */
  Schema.Struct({ type: Schema.Literal("listening") })
])

export type ProcessMessage = typeof ProcessMessage.Type

/** Sends a message to the supervisor. A message to a supervisor that is gone is dropped. */
const tell = (message: ProcessMessage): void => {
  // With a callback, Node reports a closed channel to it. Without one, it emits an error on the process.
  process.send?.(message, undefined, undefined, () => {})
}

/** Where the service listens. */
export interface Listening {
  readonly host: string
  readonly port: number
  readonly base_url: string
  /** URL of the admin listener, if there is one. Those of several processes are separated by spaces. */
  readonly admin_url?: string
}

/** Logs that the process listens. A supervised process tells its supervisor instead, which logs it once for all. */
export const announce = (listening: Listening): Effect.Effect<void> =>
  processNumber === null
    ? Effect.annotateLogs(Effect.logInfo("Listening"), { ...listening })
    : Effect.sync(() => tell({ type: "listening" }))

/**
 * Drains this process when its supervisor is gone, however that ended. By default Node would exit at once, and cut the
 * running requests.
 */
export const endWithSupervisor = (): void => {
  const { worker } = cluster
  if (processNumber === null || worker === undefined) return
  worker.once("disconnect", () => {
    if (worker.exitedAfterDisconnect) return
    // Node exits the process after this event unless the property is true.
    worker.exitedAfterDisconnect = true
    // As on SIGTERM; emitted, because on Windows a signal to itself would end the process at once.
    if (!process.emit("SIGTERM", "SIGTERM")) process.exit()
    setTimeout(() => process.exit(1), Number(process.env[patienceVariable])).unref()
  })
}

/**
 * Leaves the supervisor when the listener has closed. The supervisor may have handed over one more connection before it
 * learned of that. This process returns it, and another process serves it. Without this, its client would get no answer.
 */
export const leaveSupervisor: Effect.Effect<void> = Effect.callback((resume) => {
  const { worker } = cluster
  if (processNumber === null || worker === undefined || !worker.isConnected()) return resume(Effect.void)
  worker.once("disconnect", () => resume(Effect.void))
  worker.disconnect()
})
