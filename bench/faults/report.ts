/** The report of a run: a row for each contestant, variant and bank, and the most telling timelines. */
import { align, type Machine } from "../shared/report.ts"
import { percentile } from "../shared/statistics.ts"
import { type Judged, type Verdict, verdictNames, verdicts } from "./judge.ts"
import type { Entry, Played } from "./run.ts"
import type { KeyMode, Variant, VariantName } from "./types.ts"

export type Counts = Readonly<Record<Verdict, number>>

export interface Row {
  readonly contestant: string
  readonly variant: VariantName
  readonly keys: KeyMode
  readonly payments: number
  readonly counts: Counts
  /** The same for each fault. */
  readonly byFault: Readonly<Record<string, Partial<Counts>>>
  /** The ids of the payments that are not right, separated by spaces. */
  readonly verdicts: Partial<Readonly<Record<Verdict, string>>>
  /** Milliseconds until a final answer, of the payments that had one before hours passed. */
  readonly answered: { readonly count: number; readonly median: number; readonly p95: number }
  /** Null: measured in another row of the contestant. */
  readonly perSecond: number | null
}

/** Three faults whose timelines the report keeps, and the bank of each: one payment in each default variant. */
export const tellingFaults = { kill_booked: "none", freeze_claimed: "none", bank_down: "forever" } as const

export interface Timeline {
  readonly fault: string
  readonly contestant: string
  readonly steps: ReadonlyArray<{ readonly at: number; readonly what: string }>
}

/** A contestant as the page names it. */
export interface Described extends Variant {
  readonly contestant: string
  readonly versions: Readonly<Record<string, string>>
}

export interface FaultsReport {
  readonly machine: Machine
  readonly seed: string
  readonly seconds: number
  /** Scenes of a contestant at the same time. */
  readonly parallel: number
  readonly contestants: ReadonlyArray<Described>
  readonly rows: ReadonlyArray<Row>
  readonly timelines: ReadonlyArray<Timeline>
  /** Scenes that could not be played: the run proves nothing about them. */
  readonly errors: ReadonlyArray<string>
}

const countsOf = (judged: ReadonlyArray<Judged>): Counts => {
  const counts = Object.fromEntries(verdictNames.map((name) => [name, 0])) as Record<Verdict, number>
  for (const { verdict } of judged) counts[verdict]++
  return counts
}

const withoutZeros = (counts: Counts): Partial<Counts> =>
  Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0))

export const rowOf = ({ contestant, keys, variant }: Entry, { judged }: Played, perSecond: number | null): Row => {
  const times = judged.flatMap(({ answeredAfter }) => answeredAfter ?? []).toSorted((a, b) => a - b)
  return {
    contestant: contestant.name,
    variant,
    keys,
    payments: judged.length,
    counts: countsOf(judged),
    byFault: Object.fromEntries(
      [...Map.groupBy(judged, ({ fault }) => fault)].toSorted(([a], [b]) => a.localeCompare(b))
        .map(([fault, all]) => [fault, withoutZeros(countsOf(all))])
    ),
    verdicts: Object.fromEntries(
      [...Map.groupBy(judged.filter(({ verdict }) => verdict !== "right"), ({ verdict }) => verdict)]
        .map(([verdict, all]) => [verdict, all.map(({ id }) => id).toSorted().join(" ")])
    ),
    answered: { count: times.length, median: percentile(times, 0.5) || 0, p95: percentile(times, 0.95) || 0 },
    perSecond
  }
}

export const timelinesOf = (entry: Entry, { timelines }: Played): ReadonlyArray<Timeline> =>
  Object.entries(tellingFaults).flatMap(([fault, keys]) => {
    const steps = timelines.get(`${fault}-1`)
    const isTold = entry.variant === "default" && entry.keys === keys
    return steps === undefined || !isTold ? [] : [{ fault, contestant: entry.contestant.name, steps }]
  })

/** The payments whose verdicts differ from those of a recorded run, one line for each. */
export const differences = (
  { contestant, keys, variant }: Entry,
  { judged }: Played,
  { rows }: FaultsReport
): ReadonlyArray<string> => {
  const row = rows.find((row) => row.contestant === contestant.name && row.keys === keys && row.variant === variant)
  const name = `${contestant.name} ${variant} ${keys}`
  if (row === undefined) return [`${name}: not recorded`]
  const recorded = new Map(
    Object.entries(row.verdicts).flatMap(([verdict, ids]) => ids.split(" ").map((id) => [id, verdict]))
  )
  return judged.flatMap(({ id, reason, told, verdict }) => {
    const before = recorded.get(id) ?? "right"
    return before === verdict ? [] : [`${name} ${id}: ${verdict}, told ${told} (${reason}), recorded as ${before}`]
  })
}

/** Whether a payment was made twice, told wrongly or lost. */
export const isWrong = (verdict: Verdict): boolean => wrongVerdicts.includes(verdict)
export const wrongVerdicts: ReadonlyArray<Verdict> = ["paid_twice", "told_paid", "told_failed", "lost"]

export const wrongOf = ({ counts }: Row): number => wrongVerdicts.reduce((sum, verdict) => sum + counts[verdict], 0)

export const toTable = ({ errors, machine, rows, seconds, seed }: FaultsReport): string =>
  [
    align([
      [
        "contestant",
        "variant",
        "keys",
        "payments",
        ...verdictNames.map((name) => verdicts[name]),
        "median s",
        "p95 s",
        "payments/s"
      ],
      ...rows.map(({ answered, contestant, counts, keys, payments, perSecond, variant }) => [
        contestant,
        variant,
        keys,
        String(payments),
        ...verdictNames.map((name) => String(counts[name])),
        (answered.median / 1000).toFixed(1),
        (answered.p95 / 1000).toFixed(1),
        perSecond === null ? "-" : perSecond.toFixed(0)
      ])
    ]),
    ...errors.map((error) => `could not be played: ${error}`),
    `seed ${seed}, ${seconds} s, ${machine.cpus} cores`,
    ""
  ].join("\n")
