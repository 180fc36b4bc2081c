/** The figures of a judge: each has a rule, and the table shows which rules were broken. */

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

export const atMost = (name: string, value: number, most: number, examples: ReadonlyArray<string> = []): Figure => ({
  name,
  value: String(value),
  required: `at most ${most}`,
  holds: value <= most,
  examples: examples.slice(0, 5)
})

/** Whether every figure keeps its rule. */
export const hasPassed = (figures: ReadonlyArray<Figure>): boolean => figures.every(({ holds }) => holds)

/** Left-aligned columns, except the second, which contains numbers. */
export const table = (lines: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => {
  const widths = lines[0]!.map((_, column) => Math.max(...lines.map((line) => line[column]!.length)))
  return lines.map((line) =>
    line.map((cell, column) => column === 1 ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!))
      .join("  ").trimEnd()
  )
}

export const figuresTable = (figures: ReadonlyArray<Figure>): ReadonlyArray<string> => {
  const lines = table([
    ["figure", "value", "must be", ""],
    ...figures.map(({ holds, name, required, value }) => [name, value, required, holds ? "holds" : "BROKEN"])
  ])
  const examples = figures.filter(({ holds }) => !holds).flatMap((figure) =>
    figure.examples.map((example) => `  ${figure.name}: ${example}`)
  )
  return [...lines, ...examples]
}
