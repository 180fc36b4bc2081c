/** The report of a run in words and figures. */
import { operationStates } from "../../../../src/domain/Operation.ts"
import { nameOf } from "../chaos/Faults.ts"
import type { Evidence } from "./Evidence.ts"
import { type Figure, figuresTable, table } from "./Figure.ts"

const tally = (names: Iterable<string>): ReadonlyArray<readonly [name: string, count: string]> =>
  [...Map.groupBy(names, (name) => name)]
    .map(([name, all]) => [name, String(all.length)] as const)
    .toSorted(([one], [other]) => one.localeCompare(other))

/** The table of figures, and the events of the run. */
export const report = (evidence: Evidence, figures: ReadonlyArray<Figure>): ReadonlyArray<string> => {
  const { injected, operations, outages, receipts, sent, workerStarts } = evidence
  const down = outages.reduce((sum, { from, to }) => sum + to - from, 0)
  const settled = operationStates.map((state) => [
    state,
    String(operations.filter((operation) => operation.state === state).length)
  ])
  return [
    ...figuresTable(figures),
    "",
    ...table([["operations at the end", String(operations.length)], ...settled]),
    "",
    ...table([
      ["faults of processes and networks", String(injected.length)],
      ...tally(injected.map(({ fault }) => nameOf(fault)))
    ]),
    "",
    ...table([
      ["submissions received by the provider, by outcome", String(receipts.length)],
      ...tally(receipts.map(({ outcome }) => outcome))
    ]),
    "",
    ...table([
      ["workers started", String(workerStarts)],
      ["submissions sent by workers", String([...sent.values()].reduce((sum, times) => sum + times, 0))],
      ["database down (ms)", String(down)]
    ])
  ]
}
