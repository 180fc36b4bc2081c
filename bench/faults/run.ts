/** Plays the scenes of a corpus with a contestant, some at a time, and measures its rate without faults. */
import * as fs from "node:fs"
import * as path from "node:path"
import type { Scene, Struck } from "./corpus.ts"
import { judge, type Judged } from "./judge.ts"
import { needsStandby, play } from "./scenes.ts"
import type { Contestant, KeyMode, VariantName } from "./types.ts"
import { type Note, type Stage, World } from "./world.ts"

/** A contestant in one of its variants, at one of the banks. */
export interface Entry {
  readonly contestant: Contestant
  readonly variant: VariantName
  readonly keys: KeyMode
}

export const nameOf = ({ contestant, keys, variant }: Entry): string => `${contestant.name}-${variant}-${keys}`

export interface Played {
  /** Scenes that could not be played. */
  readonly errors: ReadonlyArray<string>
  readonly judged: ReadonlyArray<Judged>
  /** The steps of each payment, by its id. */
  readonly timelines: ReadonlyMap<string, ReadonlyArray<Note>>
}

const timelineOf = (notes: ReadonlyArray<Note>, id: string): ReadonlyArray<Note> => {
  const own = notes.filter((note) => note.id === id || note.id === undefined).toSorted((a, b) => a.at - b.at)
  const from = own[0]?.at ?? 0
  return own.map(({ at, what }) => ({ at: at - from, what }))
}

const playOne = async (stage: Stage, entry: Entry, scene: Scene): Promise<Omit<Played, "errors">> => {
  const name = `${nameOf(entry)}-${scene.name}`
  const world = await World.open({ stage, name, ...entry, hasStandby: needsStandby(scene.name), hasClocks: true })
  try {
    await play(world, scene)
    const judged = await judge(world, scene)
    return { judged, timelines: new Map(scene.payments.map(({ id }) => [id, timelineOf(world.notes, id)])) }
  } finally {
    await world.close()
    fs.rmSync(path.join(stage.directory, name, "primary"), { recursive: true, force: true })
    fs.rmSync(path.join(stage.directory, name, "standby"), { recursive: true, force: true })
  }
}

/** Plays each scene at the bank of its entry, at most so many at the same time. Resolves to what each entry played. */
export const playAll = async (
  stage: Stage,
  tasks: ReadonlyArray<{ readonly entry: Entry; readonly scene: Scene }>,
  parallel: number,
  say: (line: string) => void
): Promise<(entry: Entry) => Played> => {
  const played: Array<Omit<Played, "errors"> & { readonly entry: Entry }> = []
  const errors: Array<{ readonly entry: Entry; readonly error: string }> = []
  const waiting = tasks.values()
  const playNext = async (): Promise<void> => {
    for (const { entry, scene } of waiting) {
      const [name, from] = [`${nameOf(entry)} ${scene.name}`, performance.now()]
      try {
        played.push({ entry, ...await playOne(stage, entry, scene) })
      } catch (error) {
        errors.push({ entry, error: `${name}: ${error instanceof Error ? error.message : String(error)}` })
        say(`ERROR ${errors.at(-1)!.error}`)
      }
      say(`${name}: ${((performance.now() - from) / 1000).toFixed(1)} s`)
    }
  }
  await Promise.all(Array.from({ length: parallel }, playNext))
  return (entry) => {
    const own = played.filter((one) => one.entry === entry)
    return {
      errors: errors.flatMap((one) => one.entry === entry ? [one.error] : []),
      judged: own.flatMap(({ judged }) => judged),
      timelines: new Map(own.flatMap(({ timelines }) => [...timelines]))
    }
  }
}

/** Payments of the measurement without faults, and the seconds after which it ends. The first tenth is not measured. */
const measured = 1000
const longest = 10

/** Payments per second of one worker without faults, from the bank's record. */
export const measureRate = async (stage: Stage, entry: Entry): Promise<number> => {
  const payments = Array.from({ length: measured }, (_, n): Struck => ({
    id: `rate-${n + 1}`,
    amount: "10.00",
    currency: "EUR",
    payee: "Payee",
    fault: "none"
  }))
  const name = `${nameOf(entry)}-rate`
  const world = await World.open({ stage, name, ...entry, hasStandby: false, hasClocks: false })
  try {
    await world.accept(payments)
    await world.processes.start(0)
    await world.met("booked", new Set(payments.map(({ id }) => id)), longest)
    const booked = world.events.filter(({ event }) => event === "booked").map(({ at }) => at).slice(measured / 10)
    if (booked.length < 2) throw new Error(`too few payments were booked in ${longest} s`)
    return booked.length * 1000 / (booked.at(-1)! - booked[0]!)
  } finally {
    await world.close()
    fs.rmSync(path.join(stage.directory, name, "primary"), { recursive: true, force: true })
  }
}
