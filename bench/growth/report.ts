/** The report of the growth benchmark, as tables and as JSON. */
import { align, type Machine } from "../shared/report.ts"
import { median } from "../shared/statistics.ts"
import type { Kind, RoundCosts } from "./calls.ts"
import type { LedgerSize } from "./ledger.ts"
import type { Cost } from "./meter.ts"
import type { SnapshotReport } from "./snapshot.ts"

/** A call may cost this many times as much as on the first ledger. */
export const goal = 1.2

/** Medians over the rounds. */
interface KindCost extends Cost {
  /** CPU time relative to the first ledger or phase: median of the ratios of the rounds. */
  readonly ratio: number
}

export interface LedgerCosts extends LedgerSize {
  readonly costs: Readonly<Record<Kind, KindCost>>
}

export interface GrowthReport {
  readonly machine: Machine
  readonly sharedBuffers: string
  /** Whether the ledgers were in these buffers before the rounds. */
  readonly warm: boolean
  /** Whether these buffers were in huge pages of Linux. Older reports do not say. */
  readonly hugePages?: boolean
  readonly rounds: number
  /** Operations of a round. */
  readonly operations: number
  readonly kinds: Readonly<Record<Kind, string>>
  readonly grown: ReadonlyArray<LedgerCosts>
  readonly snapshot: SnapshotReport
}

const kindsIn = (costs: Readonly<Record<Kind, unknown>>) => Object.keys(costs) as ReadonlyArray<Kind>

/** The first ledger is the base of the ratios. */
export const summarize = (
  ledgers: ReadonlyArray<LedgerSize & { readonly rounds: ReadonlyArray<RoundCosts> }>
): ReadonlyArray<LedgerCosts> =>
  ledgers.map(({ rounds, ...size }) => {
    const costOf = (kind: Kind): KindCost => {
      const of = (figure: (cost: Cost) => number) => median(rounds.map((round) => figure(round[kind])))
      return {
        cpu: of(({ cpu }) => cpu),
        hits: of(({ hits }) => hits),
        misses: of(({ misses }) => misses),
        wal: of(({ wal }) => wal),
        ratio: median(rounds.map((round, index) => round[kind].cpu / ledgers[0]!.rounds[index]![kind].cpu))
      }
    }
    const costs = Object.fromEntries(kindsIn(rounds[0]!).map((kind) => [kind, costOf(kind)]))
    return { ...size, costs: costs as Record<Kind, KindCost> }
  })

/** The calls whose ratio exceeds the goal. */
const exceeding = (ledgers: ReadonlyArray<LedgerCosts>): ReadonlyArray<Kind> =>
  kindsIn(ledgers[0]!.costs).filter((kind) => ledgers.some(({ costs }) => costs[kind].ratio > goal))

const count = (value: number) => value < 100 ? value.toFixed(1) : value.toFixed(0)

const tableOf = (
  kinds: GrowthReport["kinds"],
  title: string,
  names: ReadonlyArray<string>,
  ledgers: ReadonlyArray<LedgerCosts>
) => {
  const cpu = align([
    [title, ...names.map((name) => `${name} us`), ...names.slice(1).map((name) => `${name} ratio`), "goal"],
    ...kindsIn(kinds).map((kind) => [
      kinds[kind],
      ...ledgers.map(({ costs }) => count(costs[kind].cpu)),
      ...ledgers.slice(1).map(({ costs }) => costs[kind].ratio.toFixed(2)),
      ledgers.some(({ costs }) => costs[kind].ratio > goal) ? "EXCEEDED" : "holds"
    ])
  ])
  const pages = align([
    ["pages and WAL of a call", ...names.flatMap((name) => [`${name} hit`, "missed", "WAL bytes"])],
    ...kindsIn(kinds).map((kind) => [
      kinds[kind],
      ...ledgers.flatMap(({ costs }) => [
        count(costs[kind].hits),
        count(costs[kind].misses),
        costs[kind].wal.toFixed(0)
      ])
    ])
  ])
  const exceeded = exceeding(ledgers).map((kind) => kinds[kind])
  return [
    cpu,
    pages,
    exceeded.length === 0
      ? `Each call costs at most ${goal} times as much as in the first column.`
      : `More than ${goal} times as much as in the first column: ${exceeded.join(", ")}.`
  ].join("\n\n")
}

export const toTable = (report: GrowthReport): string => {
  const { grown, kinds, machine: { cpu, cpus, node }, operations, rounds, sharedBuffers, snapshot } = report
  return [
    tableOf(kinds, "CPU of a call", grown.map((ledger) => ledger.operations.toLocaleString("en")), grown),
    `A transaction open for ${snapshot.seconds} s at ${snapshot.rate} operations/s, ${
      snapshot.settled.toLocaleString("en")
    } settled meanwhile, on a ledger of ${snapshot.phases[0]!.operations.toLocaleString("en")}:`,
    tableOf(kinds, "CPU of a call", ["before", "open", "ended", "vacuumed"], snapshot.phases),
    `Medians of ${rounds} rounds of ${operations} operations; shared_buffers ${sharedBuffers}${
      report.warm ? ", warm" : ""
    }${report.hugePages === true ? ", in huge pages" : ""}. ${cpus} × ${cpu}, Node ${node}.\n`
  ].join("\n\n")
}
