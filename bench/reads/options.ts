/**
 * The options of `npm run bench`.
 */
import * as path from "node:path"
import { fail, readNumber, readOptions } from "../shared/usage.ts"
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
  /** Names the run in the ladder of docs/performance.md. */
  readonly label: string | null
  readonly scenarios: ReadonlyArray<ScenarioKey>
  readonly operations: number
  readonly connections: number
  readonly rounds: number
  readonly warmUpSeconds: number
  /** Length of a round in seconds, given that of a full run. */
  readonly seconds: (full: number) => number
}

const isKey = (text: string): text is ScenarioKey => scenarioKeys.some((key) => key === text)

/** Reads the options; a wrong one ends the process. */
export const readReadsOptions = (scriptUrl: string, sourceCommand: string): Options => {
  const values = readOptions(scriptUrl, {
    quick: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    check: { type: "boolean", default: false },
    profile: { type: "boolean", default: false },
    go: { type: "boolean", default: false },
    sources: { type: "boolean", default: false },
    command: { type: "string" },
    keep: { type: "string" },
    label: { type: "string" },
    scenario: { type: "string", multiple: true },
    operations: { type: "string", default: "1000000" },
    connections: { type: "string", default: "64" },
    rounds: { type: "string" },
    seconds: { type: "string" },
    "warm-up": { type: "string" }
  })
  const { command, keep, quick, rounds, scenario, seconds, sources, "warm-up": warmUp } = values
  if (sources && command !== undefined) return fail("specify at most one of --sources and --command")
  const scenarios = scenario ?? scenarioKeys
  const unknown = scenarios.find((key) => !isKey(key))
  if (unknown !== undefined) return fail(`--scenario must be one of ${scenarioKeys.join(", ")}`)
  const operations = Math.round(readNumber("--operations", values.operations, 200, 100_000_000))
  const length = seconds === undefined ? null : readNumber("--seconds", seconds, 0.05, 3600)
  return {
    json: values.json,
    check: values.check,
    profile: values.profile,
    go: values.go,
    command: sources ? sourceCommand : command === undefined ? null : path.resolve(command),
    keep: keep === undefined ? null : path.resolve(keep),
    label: values.label ?? null,
    scenarios: scenarios.filter(isKey),
    operations,
    connections: Math.round(readNumber("--connections", values.connections, 1, 10_000)),
    rounds: rounds === undefined ? quick ? 3 : 5 : Math.round(readNumber("--rounds", rounds, 1, 1000)),
    warmUpSeconds: warmUp === undefined ? quick ? 1 : 3 : readNumber("--warm-up", warmUp, 0.05, 3600),
    seconds: (full) => length ?? (quick ? 1 : full)
  }
}
