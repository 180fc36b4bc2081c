/** The faults of a run with their times, in words and figures. */
import { table } from "../kit/Figure.ts"
import { type Evidence, type Exchange, type Injected, isSuccess } from "./History.ts"

/** A silence counts from this many milliseconds on: loops pause, and answers take their time. */
const shortestSilence = 1500

/** When something succeeded, in order. */
type Successes = ReadonlyArray<number>

const successes = ({ facts, history, receipts }: Evidence) => {
  const of = (kinds: ReadonlyArray<Exchange["kind"]>): Successes =>
    history.filter((one) => kinds.includes(one.kind) && isSuccess(one)).map(({ to }) => to).sort((a, b) => a - b)
  return {
    reads: of(["read", "list"]),
    accepts: of(["accept"]),
    sends: receipts.map(({ at }) => at - facts.clock.wall + facts.clock.monotonic).sort((a, b) => a - b)
  }
}

/** Milliseconds from the fault to the end of the longest silence that ended until then. 0: there was none. */
export const backAfter = (from: number, to: number, times: Successes): number => {
  let longest = { length: shortestSilence, end: from }
  const within = times.filter((at) => at > from - 10_000 && at <= to)
  for (const [index, end] of within.entries()) {
    const start = within[index - 1] ?? from
    if (end > from && end - start > longest.length) longest = { length: end - start, end }
  }
  return longest.end - from
}

const seconds = (milliseconds: number) => milliseconds === 0 ? "no gap" : (milliseconds / 1000).toFixed(1)

const medianAndWorst = (values: ReadonlyArray<number>): string => {
  const sorted = values.toSorted((a, b) => a - b)
  return `${seconds(sorted[sorted.length >> 1]!)} / ${seconds(sorted.at(-1)!)}`
}

/** The tables of a run. */
export const tablesOf = (run: Evidence): ReadonlyArray<ReadonlyArray<string>> => {
  const { facts, history } = run
  const { accepts, reads, sends } = successes(run)
  const ends = new Map(facts.faults.map((fault, index) => [fault, facts.faults[index + 1]?.from ?? Infinity]))
  const times = (faults: ReadonlyArray<Injected>, kind: Successes) =>
    medianAndWorst(faults.map((fault) => backAfter(fault.from, ends.get(fault)!, kind)))
  const rows = [...Map.groupBy(facts.faults, ({ name }) => name)]
    .toSorted(([one], [other]) => one.localeCompare(other))
    .map(([name, faults]) => [
      name,
      String(faults.length),
      times(faults, reads),
      times(faults, accepts),
      times(faults, sends),
      medianAndWorst(faults.map(({ from, whole }) => whole - from)),
      String(Math.max(...faults.map(({ held }) => held)))
    ])
  const answered = (kind: Exchange["kind"]) => {
    const all = history.filter((exchange) => exchange.kind === kind)
    return [kind, String(all.length), `${all.filter((exchange) => isSuccess(exchange)).length} succeeded`]
  }
  return [
    [
      "seconds from the fault until service was back, median / worst",
      ...rows.length === 0 ? [] : table([["fault", "times", "reads", "accepts", "sends", "whole", "held"], ...rows])
    ],
    table([
      ...(["accept", "read", "list", "feed", "issue", "revoke"] as const).map(answered),
      ["received", String(sends.length), "by the provider"]
    ])
  ]
}
