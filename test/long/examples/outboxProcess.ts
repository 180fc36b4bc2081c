/** The outbox example as its users run it: a process. */
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { secret } from "../../fixtures/examples/outboxReceiver.ts"
import { direct } from "../../fixtures/examples/paymentsProcess.ts"
import { environment as basis } from "../../fixtures/processes/CommandLine.ts"

export interface OutboxProcess {
  /** What it has logged. */
  readonly log: () => string
  /** Waits until the log matches. Dies if the process ends before. */
  readonly logs: (pattern: RegExp) => Effect.Effect<void>
  /** Sends a signal, and yields the exit code or the signal that ended the process. */
  readonly stop: (signal: NodeJS.Signals) => Effect.Effect<NodeJS.Signals | number | null>
}

/** Starts the example. The scope ends it if it still runs. */
export const startOutbox = (environment: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.map(direct("examples/outbox/main.ts"), ([file, ...args]): OutboxProcess => {
      const child = spawn(file, args, {
        env: basis({ WEBHOOK_SECRET: secret, ...environment })
      })
      const closed = once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>
      let ended = false
      child.once("close", () => ended = true)
      let log = ""
      for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding("utf8").on("data", (chunk: string) => log += chunk)
      }
      return {
        log: () => log,
        logs: (pattern) =>
          Effect.promise(async () => {
            while (!pattern.test(log)) {
              if (ended) throw new Error(`the outbox ended: ${log}`)
              await Promise.race([once(child.stderr, "data"), closed])
            }
          }),
        stop: (signal) =>
          Effect.promise(async () => {
            child.kill(signal)
            const [code, died] = await closed
            return died ?? code
          })
      }
    }),
    ({ stop }) => stop("SIGKILL")
  )
