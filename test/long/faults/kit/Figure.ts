/** The figures of a judge: each has a rule, and the table shows which rules were broken. `conclude` ends a run with them. */

/** One line of the result. */
export interface Figure {
  readonly name: string
  readonly value: string
  /** The required value. */
  readonly required: string
  readonly holds: boolean
  /** Some of the violations. */
  readonly examples: ReadonlyArray<string>
}

/** By a short name, which controls use. */
export type Figures = Readonly<Record<string, Figure>>

/** A known mistake, or a premise that is left out. The judge must find it. */
export interface Control {
  readonly meaning: string
  /** Short names of the figures, one of which must break. */
  readonly breaks: ReadonlyArray<string>
}

/** Violations, of which there must be none. */
export const counted = (name: string, wrong: ReadonlyArray<string>): Figure => ({
  name,
  value: String(wrong.length),
  required: "0",
  holds: wrong.length === 0,
  examples: wrong.slice(0, 5)
})

export const atLeast = (name: string, value: number, least: number): Figure => ({
  name,
  value: String(value),
  required: `at least ${least}`,
  holds: value >= least,
  examples: []
})

export const atMost = (name: string, value: number, most: number): Figure => ({
  name,
  value: String(value),
  required: `at most ${most}`,
  holds: value <= most,
  examples: []
})

/** The short names of the figures that break their rule. */
export const brokenIn = (figures: Figures): ReadonlyArray<string> =>
  Object.entries(figures).flatMap(([name, { holds }]) => holds ? [] : [name])

/** Those of a control that are broken. */
export const foundOf = ({ breaks }: Control, figures: Figures): ReadonlyArray<Figure> =>
  breaks.flatMap((name) => figures[name]?.holds === false ? [figures[name]] : [])

/** Left-aligned columns, except the second, which contains numbers. */
export const table = (lines: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => {
  const widths = lines[0]!.map((_, column) => Math.max(...lines.map((line) => line[column]!.length)))
  return lines.map((line) =>
    line.map((cell, column) => column === 1 ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!))
      .join("  ").trimEnd()
  )
}

/** How often each name occurs, below a title with the number of all. */
export const tally = (title: string, names: ReadonlyArray<string>): ReadonlyArray<string> =>
  table([
    [title, String(names.length)],
    ...[...Map.groupBy(names, (name) => name)]
      .map(([name, all]) => [name, String(all.length)])
      .toSorted(([one], [other]) => one!.localeCompare(other!))
  ])

export const figuresTable = (figures: Figures): ReadonlyArray<string> => {
  const all = Object.values(figures)
  const lines = table([
    ["figure", "value", "must be", ""],
    ...all.map(({ holds, name, required, value }) => [name, value, required, holds ? "holds" : "BROKEN"])
  ])
  const examples = all.filter(({ holds }) => !holds).flatMap((figure) =>
    figure.examples.map((example) => `  ${figure.name}: ${example}`)
  )
  return [...lines, ...examples]
}

/** The last line of a run, and its exit code. With a control the run succeeds if the judge found what the control breaks. */
export const verdictOf = (figures: Figures, control: Control | null) => {
  const broken = brokenIn(figures).length
  if (control === null) {
    return { text: broken === 0 ? "all rules kept" : `${broken} rules BROKEN`, code: broken === 0 ? 0 : 1 }
  }
  const found = foundOf(control, figures).map(({ name, value }) => `${value} ${name}`).join(", ")
  return {
    text: `control (${control.meaning}): ${found === "" ? "NOTHING FOUND" : `found ${found}`}`,
    code: found === "" ? 1 : 0
  }
}

/** Prints the tables of a run and its verdict, and sets the exit code. Returns what it printed. */
export const conclude = (
  figures: Figures,
  tables: ReadonlyArray<ReadonlyArray<string>>,
  summary: string,
  control: Control | null = null
): string => {
  const { code, text } = verdictOf(figures, control)
  const parts = [figuresTable(figures), ...tables, [`${summary}: ${text}`]].map((part) => part.join("\n"))
  const report = `${parts.join("\n\n")}\n`
  process.stdout.write(report)
  process.exitCode = code
  return report
}
