/**
 * The part of a worker that strikes the worker itself. It takes orders from the parent, and carries one out at the next
 * pass of the named point.
 */
import { Schema } from "effect"
import * as fs from "node:fs"
import * as readline from "node:readline"
import { type CrashPoint, Message, Order } from "./Plan.ts"

const decodeOrder = Schema.decodeSync(Order)
const encodeMessage = Schema.encodeSync(Message)

/** Synchronous: the message is written before any later step. */
export const tell = (message: Message): void => {
  fs.writeSync(1, `${encodeMessage(message)}\n`)
}

export interface Striker {
  readonly isOrdered: (point: CrashPoint) => boolean
  /** Does not return if the order is to kill, and returns much later if it is to stop. */
  readonly pass: (point: CrashPoint) => void
}

/** Listens for orders on the standard input. The parent ends the process by closing it. */
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
      // Another thread may take the signal shortly after the call. No code may run until then.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50)
      tell({ _tag: "Resumed" })
    }
  }
}
