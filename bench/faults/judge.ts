/** Judges the payments by the bank's own record, and by what the contestant tells of them in the end. */
import { monotonic, sleep, slowness } from "../../test/long/faults/kit/Clock.ts"
import type { Scene, Struck } from "./corpus.ts"
import type { BankEvent, Outcome } from "./types.ts"
import type { World } from "./world.ts"

/** The worst first. A payment has the first one that holds. */
export const verdicts = {
  paid_twice: "paid twice",
  told_paid: "told as paid, not paid",
  told_failed: "told as failed, but paid",
  lost: "lost",
  person: "left for a person",
  open: "open at the end",
  right: "right"
} as const
export type Verdict = keyof typeof verdicts
export const verdictNames = Object.keys(verdicts) as ReadonlyArray<Verdict>

/** A judged payment. */
export interface Judged {
  readonly id: string
  readonly fault: string
  readonly verdict: Verdict
  /** How often the bank booked it. */
  readonly bookings: number
  readonly told: Outcome["told"] | "nothing"
  readonly reason: string
  /** Milliseconds from the acceptance until the contestant was seen to tell that it is paid or failed, if that was before hours passed. */
  readonly answeredAfter: number | null
}

export const verdictOf = (bookings: number, told: Judged["told"]): Verdict => {
  if (bookings > 1) return "paid_twice"
  switch (told) {
    case "nothing":
      return "lost"
    case "paid":
      return bookings === 0 ? "told_paid" : "right"
    case "failed":
      return bookings === 1 ? "told_failed" : "right"
    default:
      return told
  }
}

const bookingsOf = (events: ReadonlyArray<BankEvent>, id: string) =>
  events.filter((event) => event.event === "booked" && event.id === id).length

/** When it looks before hours pass, in milliseconds: until no payment is open, or until nothing happens any more. */
const looks = [300, 800, 1500, 2500, 4000, 6000, 8000, 10_000, 12_500, 15_000, 17_500, 20_000]
const shortest = 8000

/** How often hours pass, at most. A circuit that opens lets only some payments through each time. */
const mostPasses = 20

/** Milliseconds without an event at the bank, after which what was due is done, and the longest wait for them. */
const quiet = { least: 4000 * slowness, longest: 20_000 * slowness }

const untilQuiet = async ({ events }: World) => {
  const begun = monotonic()
  for (let [count, since] = [events.length, begun]; monotonic() - since < quiet.least;) {
    if (monotonic() - begun > quiet.longest) return
    await sleep(100)
    if (events.length !== count) [count, since] = [events.length, monotonic()]
  }
}

const isOpen = (outcome: Outcome | undefined) => outcome === undefined || outcome.told === "open"

/**
 * Waits for the final answers. Locks and delays of hours then end, because hours pass. Yields the last outcomes, and when
 * each payment first had a final answer, in milliseconds of the monotonic clock.
 */
const settle = async (world: World, payments: ReadonlyArray<Struck>) => {
  const answeredAt = new Map<string, number>()
  let outcomes: ReadonlyMap<string, Outcome> = new Map()
  let hasChanged = true
  let events = 0
  const look = async (isTimed: boolean): Promise<boolean> => {
    const before = outcomes
    outcomes = await world.outcomes()
    const count = world.events.filter(({ event }) => event !== "read").length
    hasChanged = events !== count || payments.some(({ id }) => before.get(id)?.told !== outcomes.get(id)?.told)
    events = count
    const now = monotonic()
    if (isTimed) {
      for (const { id, told } of outcomes.values()) {
        if ((told === "paid" || told === "failed") && !answeredAt.has(id)) answeredAt.set(id, now)
      }
    }
    return payments.every(({ id }) => !isOpen(outcomes.get(id)))
  }
  const begun = monotonic()
  for (const at of looks) {
    await sleep(Math.max(0, begun + at * slowness - monotonic()))
    if (await look(true) || at >= shortest && !hasChanged) break
  }
  for (let n = 0; n < mostPasses; n++) {
    await world.passIdle(5)
    await untilQuiet(world)
    // What is left for a person may still end by itself.
    if (await look(false) && !hasChanged) break
  }
  return { outcomes, answeredAt }
}

/** Waits until a played scene has settled, and judges its payments. */
export const judge = async (world: World, { payments }: Scene): Promise<ReadonlyArray<Judged>> => {
  const { answeredAt, outcomes } = await settle(world, payments)
  return payments.map(({ fault, id }) => {
    const outcome = outcomes.get(id)
    const told = outcome?.told ?? "nothing"
    const bookings = bookingsOf(world.events, id)
    const acceptedAt = world.notes.find((note) => note.id === id && note.what === "accepted")?.at
    const answered = answeredAt.get(id)
    world.note(`told as ${told}${outcome?.reason ? ` (${outcome.reason})` : ""}, booked ${bookings} times`, id)
    return {
      id,
      fault,
      bookings,
      told,
      verdict: verdictOf(bookings, told),
      reason: outcome?.reason ?? "",
      answeredAfter: acceptedAt === undefined || answered === undefined ? null : Math.round(answered - acceptedAt)
    }
  })
}
