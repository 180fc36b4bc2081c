/**
 * The side of a worker that strikes the worker itself: it takes orders from the parent, and carries one out where the
 * process comes by the named point next.
 */
import { Schema } from "effect"
import * as fs from "node:fs"
import * as readline from "node:readline"
import { type CrashPoint, Message, Order } from "./Plan.ts"

const decodeOrder = Schema.decodeSync(Order)
const encodeMessage = Schema.encodeSync(Message)

/** Synchronous, so that it is out before whatever comes next. */
export const tell = (message: Message): void => {
  fs.writeSync(1, `${encodeMessage(message)}\n`)
}

export interface Striker {
  readonly isOrdered: (point: CrashPoint) => boolean
  /** Does not return when the order is to kill, and returns much later when it is to stop. */
  readonly pass: (point: CrashPoint) => void
}

/** Listens for orders on the standard input. Whoever gave it ends the process by closing it. */
export const makeStriker = (): Striker => {
  let order: Order | null = null
  readline.createInterface({ input: process.stdin })
    .on("line", (line) => {
      order = decodeOrder(line)
    })
    .on("close", () => process.exit(1))
  const isOrdered = (point: CrashPoint) => order?.point === point
  return {
    isOrdered,
    pass: (point) => {
      if (order?.point !== point) return
      const { blow } = order
      order = null
      tell({ _tag: "Struck", point, blow })
      process.kill(process.pid, blow === "kill" ? "SIGKILL" : "SIGSTOP")
      // Another thread may take the signal, a moment after the call. Nothing may run in that moment.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50)
      tell({ _tag: "Resumed" })
    }
  }
}
