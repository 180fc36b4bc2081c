/** The tables and the plot of docs/comparison.md. */
import { notRun } from "../faults/contestants/manifest.ts"
import { faultTitles } from "../faults/corpus.ts"
import { type FaultsReport, type Row, wrongOf, wrongVerdicts } from "../faults/report.ts"
import type { KeyMode } from "../faults/types.ts"
import { type Bar, drawBars, type Panel } from "./bars.ts"
import { machineLine, table } from "./tables.ts"

const banks: Readonly<Record<KeyMode, string>> = {
  forever: "honours keys for ever",
  forgets: "honours keys for 24 hours, and 25 pass",
  none: "takes no keys"
}

const named = ({ contestant, variant }: Pick<Row, "contestant" | "variant">) =>
  variant === "default" ? contestant : `${contestant}, ${variant}`

const share = (count: number, of: number) => count === 0 ? "0" : `${count} (${Math.round(100 * count / of)} %)`

const bankTable = (rows: ReadonlyArray<Row>, keys: KeyMode): string =>
  table(
    [
      `Bank that ${banks[keys]}`,
      "Paid twice",
      "Told paid, not paid",
      "Told failed, but paid",
      "Lost",
      "Left for a person",
      "Open",
      "Answer, median",
      "95 %"
    ],
    rows.filter((row) => row.keys === keys).map((row) => [
      named(row),
      ...wrongVerdicts.map((verdict) => share(row.counts[verdict], row.payments)),
      share(row.counts.person, row.payments),
      share(row.counts.open, row.payments),
      `${(row.answered.median / 1000).toFixed(1)} s`,
      `${(row.answered.p95 / 1000).toFixed(1)} s`
    ])
  )

const rateTable = (rows: ReadonlyArray<Row>): string =>
  table(
    ["Without faults", "Payments/s"],
    rows.flatMap((row) => row.perSecond === null ? [] : [[named(row), row.perSecond.toFixed(0)]])
  )

/** Wrong payments and those left to a person, for each row, and each fault that has any. */
const faultTable = (rows: ReadonlyArray<Row>): string => {
  const faults = Object.keys(faultTitles).filter((fault) => rows.some(({ byFault }) => fault in byFault))
  const cell = (row: Row, fault: string) => {
    const counts = row.byFault[fault]
    if (counts === undefined) return "–"
    const wrong = wrongVerdicts.reduce((sum, verdict) => sum + (counts[verdict] ?? 0), 0)
    return counts.person === undefined ? String(wrong) : `${wrong} + ${counts.person}`
  }
  const cells = faults.map((fault) => [faultTitles[fault]!, ...rows.map((row) => cell(row, fault))])
  const isClean = ([, ...counts]: ReadonlyArray<string>) => counts.every((count) => count === "0")
  const clean = cells.filter(isClean).map(([title]) => title)
  return [
    table(["Wrong + left for a person", ...rows.map(named)], cells.filter((row) => !isClean(row))),
    ...clean.length === 0 ? [] : [`0 in each column: ${clean.join("; ")}.`]
  ].join("\n\n")
}

const contestantsTable = ({ contestants }: FaultsReport): string =>
  table(
    ["Contestant", "Versions", "Follows", "Promises"],
    [
      ...contestants.map(({ contestant, documentation, name, promises, versions }) => [
        named({ contestant, variant: name }),
        Object.entries(versions).map(([name, version]) => `${name} ${version}`).join(", ") || "this repository",
        documentation,
        promises
      ]),
      ...notRun.map(({ adds, documentation, name }) => [name, "not run", documentation, adds])
    ]
  )

export const faultsText = (report: FaultsReport): string => {
  const { machine, rows, seconds, seed } = report
  const modes = (["forever", "none", "forgets"] as const).filter((keys) => rows.some((row) => row.keys === keys))
  const payments = (keys: KeyMode) => rows.find((row) => row.keys === keys)!.payments
  return [
    `${modes.map((keys) => `${payments(keys)} payments at the bank that ${banks[keys]}`).join("; ")}. Seed ${seed}; `
    + `${Math.round(seconds / 60)} minutes on ${machineLine(machine)}.`,
    ...modes.map((keys) => bankTable(rows, keys)),
    ...rows.some(({ perSecond }) => perSecond !== null) ? [rateTable(rows)] : [],
    "### By fault",
    ...modes.filter((keys) => keys !== "forgets").flatMap((keys) => [
      `The bank that ${banks[keys]}:`,
      faultTable(rows.filter((row) => row.keys === keys))
    ]),
    "### Contestants",
    contestantsTable(report)
  ].join("\n\n")
}

const panelOf = (rows: ReadonlyArray<Row>, keys: KeyMode, title: string, value: (row: Row) => number): Panel => ({
  title: `${title}: bank that ${banks[keys]}`,
  unit: "payments",
  bars: rows.filter((row) => row.keys === keys).map((row): Bar => ({
    label: named(row),
    value: value(row),
    shown: String(value(row)),
    isFirst: row.contestant === "gateway"
  }))
})

const panelsOf = (rows: ReadonlyArray<Row>, keys: KeyMode): ReadonlyArray<Panel> => [
  panelOf(rows, keys, "Wrong", wrongOf),
  panelOf(rows, keys, "Left for a person", ({ counts }) => counts.person)
]

const plotTitle = "Payments that were wrong, and payments left for a person, under the same faults"

export const faultsPlot = ({ rows }: FaultsReport): string =>
  drawBars(plotTitle, (["forever", "none"] as const).flatMap((keys) => panelsOf(rows, keys)))

/** For the first page: the bank that takes no keys, with the tuned variant of each contestant behind its first form. */
export const proofText = ({ rows }: FaultsReport): string => {
  const keyless = rows.filter(({ keys }) => keys === "none")
  const first = keyless.filter(({ variant }) => variant === "default")
  const cell = (of: Row, value: (row: Row) => number) =>
    keyless.filter(({ contestant }) => contestant === of.contestant).map(value).join("; tuned ")
  const paidTwice = ({ counts }: Row) => counts.paid_twice
  return [
    `The same ${
      first[0]!.payments
    } payments under the same faults, at a bank that takes no keys. Told wrongly: the system `
    + "says one thing, the bank another; or it lost the payment. Left for a person: uncertain, and a person asks the bank.",
    table(
      [`Of ${first[0]!.payments} payments`, "Paid twice", "Told wrongly", "Left for a person"],
      first.map((row) => [
        row.contestant,
        cell(row, paidTwice),
        cell(row, (one) => wrongOf(one) - paidTwice(one)),
        cell(row, ({ counts }) => counts.person)
      ])
    ),
    "Tuned: by a further recommendation of its documentation. [comparison.md](docs/comparison.md) has other banks."
  ].join("\n\n")
}
