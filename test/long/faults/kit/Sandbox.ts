/** The sandbox as a process of a run. Its record survives restarts. */
import { Effect, Result, Schema } from "effect"
import * as path from "node:path"
import type { Arrival } from "../../../../src/sandbox/BankRequests.ts"
import type { FaultSettings } from "../../../../src/sandbox/Faults.ts"
import { decodeReceipt, type Receipt } from "../../../../src/sandbox/Record.ts"
import { Truth } from "../../../../src/sandbox/SubmissionEntries.ts"
import type { BankName } from "./Banks.ts"
import { Daemon } from "./Daemon.ts"
import type { BankKeys } from "./OpenBanking.ts"
import { configVariable } from "./Plan.ts"

const decodeTruth = Schema.decodeSync(Schema.fromJsonString(Truth))

export const receiptsIn = (lines: ReadonlyArray<string>): ReadonlyArray<Receipt> =>
  lines.map((line) => Result.getOrThrow(decodeReceipt(line)))

export interface SandboxOptions {
  /** Path of `sandboxProcess.ts`, bundled. */
  readonly program: string
  readonly directory: string
  readonly seed: string
  readonly faults: FaultSettings
  /** The bank that it simulates. Null: it has a protocol of its own. */
  readonly bank: BankName | null
  readonly keys: BankKeys
}

/** Runs until the scope closes. */
export const makeSandbox = Effect.fnUntraced(
  function*({ bank, directory, faults, keys, program, seed }: SandboxOptions) {
    const urls = { service: "", control: "" }
    /** Requests that earlier processes turned away. */
    let turnedAwayBefore = 0
    let settings = faults
    let daemon: Daemon | null = null
    const start = () =>
      new Promise<void>((resolve, reject) => {
        daemon = new Daemon({
          name: "sandbox",
          logs: directory,
          command: [process.execPath, program],
          env: {
            [configVariable]: JSON.stringify({
              // The same after a restart.
              port: Number(URL.parse(urls.service)?.port ?? 0),
              record: path.join(directory, "sandbox.jsonl"),
              seed,
              faults: settings,
              keys,
              ...bank !== null && { bank }
            })
          },
          onLine: (line) => {
            const [service = "", control = ""] = line.split(" ")
            Object.assign(urls, { service, control })
            resolve()
          },
          onEnd: ({ code, signal }) => reject(new Error(`the sandbox ended: code ${code}, signal ${signal}`))
        })
        daemon.start()
      })
    const kill = async () => daemon?.kill()
    const control = async (path: string, init: RequestInit = {}): Promise<string> => {
      const response = await fetch(`${urls.control}${path}`, init)
      const text = await response.text()
      if (!response.ok) throw new Error(`${path}: ${text}`)
      return text
    }
    const linesOf = async (path: string) => (await control(path)).split("\n").filter((line) => line !== "")
    const turnedAway = async () =>
      turnedAwayBefore
      + (await linesOf("/arrivals")).filter((line) => (JSON.parse(line) as Arrival).isTurnedAway).length
    yield* Effect.acquireRelease(Effect.promise(start), () => Effect.promise(kill))
    return {
      port: Number(new URL(urls.service).port),
      url: urls.service,
      /** SIGKILL, and a restart on the same record. */
      crash: Effect.promise(async () => {
        turnedAwayBefore = await turnedAway()
        await kill()
        await start()
      }),
      endFaults: Effect.promise(() => {
        settings = {}
        return control("/faults", { method: "PUT", body: "{}" })
      }),
      /** How many requests it answered 429. */
      turnedAway: Effect.promise(turnedAway),
      record: Effect.promise(() => linesOf("/record").then(receiptsIn)),
      truths: Effect.promise(async () => (await linesOf("/truth")).map((line) => decodeTruth(line)))
    }
  }
)
