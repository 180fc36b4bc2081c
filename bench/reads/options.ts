/**
 * The options of `npm run bench`.
 */
import * as path from "node:path"
import { commandOf, commandOptions } from "../shared/command.ts"
import { choices, flag, number, readOptions, whole } from "../shared/usage.ts"
import { type ScenarioKey, scenarioKeys } from "./scenarios.ts"

export interface Options {
  readonly json: boolean
  readonly check: boolean
  readonly profile: boolean
  readonly go: boolean
  /** A file to run instead of the shipped command; null for that one. */
  readonly command: string | null
  /** A directory for a database that stays. */
  readonly keep: string | null
  readonly scenarios: ReadonlyArray<ScenarioKey>
  readonly operations: number
  readonly connections: number
  readonly rounds: number
  readonly warmUpSeconds: number
  /** Length of a round in seconds, given that of a full run. */
  readonly seconds: (full: number) => number
}

/** Reads the options; a wrong one ends the process. */
export const readReadsOptions = (scriptUrl: string): Options => {
  const { keep, quick, rounds, seconds, "warm-up": warmUp, ...values } = readOptions(scriptUrl, {
    scenario: choices("Measures only this scenario", scenarioKeys),
    operations: whole("Operations of the large owner", { from: 200, to: 100_000_000, default: 1_000_000 }),
    connections: whole("Connections of the load", { from: 1, to: 10_000, default: 64 }),
    rounds: whole("Rounds of each target, 5 or with --quick 3", { from: 1, to: 1000, default: null }),
    seconds: number("Length of a round, chosen by the scenario or with --quick 1", {
      from: 0.05,
      to: 3600,
      default: null
    }),
    "warm-up": number("Seconds before the rounds, 3 or with --quick 1", { from: 0.05, to: 3600, default: null }),
    quick: flag("Fewer and shorter rounds, for rough figures"),
    go: flag("Measures the Go peer, too; needs golang-go and golang-github-jackc-pgx-v4-dev of Debian"),
    check: flag("Exits with 1 when a goal fails"),
    json: flag("Prints the report as JSON"),
    profile: flag("Writes CPU profiles of the gateway to the working directory, too"),
    ...commandOptions
  })
  const { check, connections, go, json, operations, profile, scenario } = values
  return {
    json,
    check,
    profile,
    go,
    command: commandOf(values),
    keep: keep === null ? null : path.resolve(keep),
    scenarios: scenario,
    operations,
    connections,
    rounds: rounds ?? (quick ? 3 : 5),
    warmUpSeconds: warmUp ?? (quick ? 1 : 3),
    seconds: (full) => seconds ?? (quick ? 1 : full)
  }
}
