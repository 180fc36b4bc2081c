/** The corpus: the faults of a run with their numbers and times, and the payments that meet them, drawn by a seed. */
import { slowness } from "../../test/long/faults/kit/Clock.ts"
import { makeDice, shuffle } from "../../test/long/faults/kit/Dice.ts"
import corpus from "./corpus.json" with { type: "json" }
import type { BankFault, KeyMode, Payment, PlannedFault } from "./types.ts"

/** The scenes. Each has a database, a bank and workers of its own. */
export const sceneNames = [
  "answers",
  "kill_claimed",
  "kill_arrived",
  "kill_booked",
  "kill_answered",
  "kill_recorded",
  "freeze_claimed",
  "freeze_arrived",
  "database_restart",
  "failover",
  "clock_jump",
  "deploy",
  "bank_down",
  "day"
] as const
export type SceneName = typeof sceneNames[number]

/** Where the worker is when a fault strikes it, and the other faults, in words. */
export const faultTitles: Readonly<Record<string, string>> = {
  lost_before: "request lost before the booking",
  lost_after: "answer lost after the booking",
  error_after: "500 after the booking",
  unavailable: "503, nothing booked",
  webhook_first: "webhook before the answer",
  webhook_then_lost: "webhook before the answer, which is lost",
  two_workers: "two workers and two clients at once",
  kill_claimed: "kill -9 after the claim, before the request",
  kill_arrived: "kill -9 while the bank has the request, before the booking",
  kill_booked: "kill -9 after the booking, before the answer",
  kill_answered: "kill -9 after the answer, before its record",
  kill_recorded: "kill -9 after the record, before its acknowledgement",
  freeze_claimed: "frozen for five hours after the claim, before the request",
  freeze_arrived: "frozen for five hours, the request under way meanwhile",
  database_restart: "database killed after the booking, and started again",
  failover: "failover to a standby without the last commits",
  clock_jump: "clock of the database five hours ahead",
  deploy: "deploy while the bank has the request",
  bank_down: "bank down for longer than the retries",
  day: "kill -9 after the booking, started again 25 hours later"
}

/** The banks at which a scene plays. After a day only the bank with keys of 24 hours differs from the others. */
export const keysOf = (scene: SceneName): ReadonlyArray<KeyMode> => scene === "day" ? ["forgets"] : ["forever", "none"]

interface FaultEntry {
  readonly fault: BankFault | "two_workers"
  /** How many requests of a payment it strikes, from the first. */
  readonly requests: number
  readonly payments: number
}

interface SceneEntry {
  readonly scene: SceneName
  readonly faults?: ReadonlyArray<FaultEntry>
  readonly payments?: number
  readonly milliseconds?: number
}

/** A payment, and the name of the fault that it meets. */
export interface Struck extends Payment {
  readonly fault: string
}

/** A scene, with its payments in the order of their acceptance. */
export interface Scene {
  readonly name: SceneName
  readonly payments: ReadonlyArray<Struck>
  /** Faults of the bank in `answers`. */
  readonly planned: ReadonlyArray<PlannedFault>
  readonly milliseconds: number
}

/** The seed of the file. */
export const ownSeed = corpus.seed

const sceneOf = (entry: SceneEntry, seed: string, most: number): Scene => {
  const dice = makeDice(seed, entry.scene)
  const planned: Array<PlannedFault> = []
  const payments: Array<Struck> = []
  for (
    const { fault, payments: asked, requests } of entry.faults ??
      [{ fault: entry.scene, requests: 0, payments: entry.payments! }]
  ) {
    for (let n = 1; n <= Math.min(asked, most); n++) {
      const id = `${fault}-${requests > 1 ? `${requests}-` : ""}${n}`
      payments.push({
        id,
        amount: `${1 + dice.below(900)}.00`,
        currency: "EUR",
        payee: `Payee ${dice.below(1000)}`,
        fault
      })
      if (fault === "two_workers") continue
      for (let request = 1; request <= requests; request++) planned.push({ id, request, fault: fault as BankFault })
    }
  }
  return {
    name: entry.scene,
    payments: shuffle(payments, dice),
    planned,
    milliseconds: (entry.milliseconds ?? 0) * slowness
  }
}

/** The scenes of a corpus. `quick` has 20 faults: two of each in the named scenes. */
export const drawCorpus = (seed: string, quick: boolean): ReadonlyArray<Scene> => {
  const entries = corpus.scenes as ReadonlyArray<SceneEntry>
  if (!quick) return entries.map((entry) => sceneOf(entry, seed, Infinity))
  const [answers, booked] = entries.filter(({ scene }) => scene === "answers" || scene === "kill_booked")
  const faults = answers!.faults!.filter(({ fault, requests }) => requests === 1 && fault !== "unavailable")
  return [sceneOf({ ...answers!, faults }, seed, 2), sceneOf(booked!, seed, 8)]
}
