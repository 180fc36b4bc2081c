/** What the programs of the contestants share: their settings, their commands, and lines of JSON. */
import * as fs from "node:fs"
import * as readline from "node:readline"
import type { KeyMode, Outcome, Payment, VariantName } from "../types.ts"

const text = (name: string): string => {
  const value = process.env[name]
  if (value === undefined) throw new Error(`${name} is missing: the harness of npm run compare:faults sets it`)
  return value
}

/** The environment of a contestant. */
export const settings = {
  databaseUrl: text("DATABASE_URL"),
  stateDirectory: text("STATE_DIR"),
  /** The first of 20 free ports. */
  portBase: Number(text("PORT_BASE")),
  bankUrl: text("BANK_URL"),
  bankToken: text("BANK_TOKEN"),
  variant: text("VARIANT") as VariantName,
  /** What the bank documents about `Idempotency-Key`. */
  bankKeys: text("BANK_KEYS") as KeyMode,
  worker: Number(text("WORKER")),
  codeVersion: Number(text("CODE_VERSION")),
  /** What a lease or heartbeat is set to, where the system has one. */
  leaseSeconds: Number(text("LEASE_SECONDS")),
  /** Payments that a worker has under way at the same time. */
  concurrency: Number(text("CONCURRENCY")),
  /** Milliseconds that a request to the bank may take: the gateway's default, for all. */
  requestTimeout: 30_000,
  /** For a command that listens while others run. */
  commandPort: Number(text("PORT_BASE")) + 12 + process.pid % 8,
  /** Where this worker may take the bank's webhooks: `POST /webhooks`, with the payment as JSON. */
  webhookPort: Number(text("WEBHOOK_PORT"))
}

const pause = new Int32Array(new SharedArrayBuffer(4))

/** Writes a line, and waits while the harness reads slower than the contestant tells. */
const put = (line: string): void => {
  for (;;) {
    try {
      return void fs.writeSync(1, `${line}\n`)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error
      Atomics.wait(pause, 0, 0, 1)
    }
  }
}

/** The worker takes work from now on. */
export const ready = () => put("ready")

/** The payment is durably accepted. */
export const accepted = (id: string) => put(id)

export const tellOutcome = (outcome: Outcome) => put(JSON.stringify(outcome))

/** The payments on the standard input. */
export const readPayments = async (): Promise<ReadonlyArray<Payment>> => {
  const payments: Array<Payment> = []
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (line.trim() !== "") payments.push(JSON.parse(line) as Payment)
  }
  return payments
}

/**
 * The commands of a contestant. `work` and `server` run until SIGTERM; the others end by themselves. `outcomes` runs once for each line of its
 * standard input.
 */
export interface Commands {
  readonly prepare: () => Promise<void>
  readonly server?: () => Promise<void>
  readonly work: () => Promise<void>
  readonly accept: () => Promise<void>
  readonly outcomes: () => Promise<void>
}

/** Runs the command that the harness asks for. */
export const runCommand = async (commands: Commands): Promise<void> => {
  const name = process.argv[2] as keyof Commands
  const command = commands[name]
  if (command === undefined) throw new Error(`no such command: ${name}`)
  if (name === "outcomes") {
    for await (const _ of readline.createInterface({ input: process.stdin })) {
      await command()
      // An empty line ends an answer.
      put("")
    }
  } else await command()
  if (name !== "work" && name !== "server") process.exit()
}
