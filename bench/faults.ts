/**
 * `npm run compare:faults`: gives the same payments, the same bank and the same faults to the gateway and to other systems, and judges them by
 * the bank's record (docs/comparison.md). The faults are in bench/faults/corpus.json.
 *
 *     npm run compare:faults -- --out bench/results/faults.json
 *     npm run compare:faults -- --only gateway --only pg-boss --against bench/results/faults.json
 *
 * Contestants with packages of their own need `npm ci --prefix bench/faults` once. Clocks need Debian's package faketime. Exits with 1 if a
 * row of the gateway has a wrong payment, or if a verdict differs from the run of `--against`.
 */
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { bundleInto } from "../test/fixtures/processes/CommandBundle.ts"
import { clockLibrary } from "../test/long/faults/kit/JumpingClock.ts"
import { contestants } from "./faults/contestants/manifest.ts"
import { drawCorpus, keysOf, ownSeed, sceneNames } from "./faults/corpus.ts"
import { differences, type FaultsReport, isWrong, rowOf, timelinesOf, toTable, wrongOf } from "./faults/report.ts"
import { type Entry, measureRate, nameOf, playAll } from "./faults/run.ts"
import { keyModes } from "./faults/types.ts"
import { prepareStage } from "./faults/world.ts"
import { machine } from "./shared/report.ts"
import { choices, fail, flag, readOptions, text, unwritable, whole } from "./shared/usage.ts"

const options = readOptions(import.meta.url, {
  only: choices("Contestant", contestants.map(({ name }) => name)),
  variant: choices("Variant", ["default", "tuned"]),
  keys: choices("Bank, by its keys", keyModes),
  scene: choices("Scene", sceneNames),
  seed: text("Draws the payments and their order", { takes: "TEXT", default: ownSeed }),
  quick: flag("20 faults at the bank without keys: gateway, hand-written and graphile-worker, without their rates"),
  parallel: whole("Scenes at the same time", { from: 1, to: 32, default: 10 }),
  out: text("Writes the report there, as JSON", { takes: "FILE", default: null, problem: unwritable }),
  against: text("Exits with 1 if the verdict of a payment differs from the run that this report has", {
    takes: "FILE",
    default: null
  }),
  keep: flag("Keeps the logs")
})

const quickNames = ["gateway", "hand-written", "graphile-worker"]
const chosen = contestants.filter(({ name }) =>
  options.only.includes(name) && (!options.quick || quickNames.includes(name))
)
const packages = fileURLToPath(new URL("faults/node_modules", import.meta.url))
if (chosen.some(({ needsOwnPackages }) => needsOwnPackages) && !fs.existsSync(packages)) {
  fail("packages of the contestants are missing: npm ci --prefix bench/faults")
}
if (clockLibrary === null) fail("the package faketime is missing: apt-get install faketime")

const recorded = options.against === null
  ? null
  : JSON.parse(fs.readFileSync(options.against, "utf8")) as FaultsReport
if (recorded !== null && recorded.seed !== options.seed) fail(`--against: that run has the seed ${recorded.seed}`)

const say = (line: string) => void process.stderr.write(`${line}\n`)

const scenes = drawCorpus(options.seed, options.quick).filter(({ name }) => options.scene.includes(name))
const banks = keyModes.filter((keys) => (!options.quick || keys === "none") && options.keys.includes(keys))

/** The tasks of each contestant and variant. They have the machine for themselves, one after the other. */
const turns = chosen.flatMap((contestant) =>
  contestant.variants.filter(({ name }) => options.variant.includes(name)).map(({ name: variant }) =>
    banks.map((keys) => ({
      entry: { contestant, variant, keys } satisfies Entry,
      scenes: scenes.filter(({ name }) => keysOf(name).includes(keys))
    })).filter(({ scenes }) => scenes.length > 0)
  )
)

const directory = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "compare-")))
process.on(
  "exit",
  () => options.keep ? say(`logs: ${directory}`) : fs.rmSync(directory, { recursive: true, force: true })
)
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1))

const bundled = new Map<string, string>()
for (const { needsOwnPackages, program } of chosen) {
  const source = `bench/faults/contestants/${program}`
  bundled.set(
    program,
    needsOwnPackages ? fileURLToPath(new URL(`../${source}`, import.meta.url)) : await bundleInto(directory, source)
  )
}
const begun = performance.now()
const stage = await prepareStage(directory, ({ program }) => bundled.get(program)!)

const rows: Array<FaultsReport["rows"][number]> = []
const timelines: Array<FaultsReport["timelines"][number]> = []
const errors: Array<string> = []
const different: Array<string> = []
for (const turn of turns) {
  const tasks = turn.flatMap(({ entry, scenes }) => scenes.map((scene) => ({ entry, scene })))
  const playedBy = await playAll(stage, tasks, options.parallel, say)
  for (const { entry } of turn) {
    const played = playedBy(entry)
    const perSecond = options.quick || entry.keys !== "forever" ?
      null :
      await measureRate(stage, entry).catch((error) => {
        errors.push(`${nameOf(entry)}, rate: ${(error as Error).message}`)
        return null
      })
    rows.push(rowOf(entry, played, perSecond))
    timelines.push(...timelinesOf(entry, played))
    errors.push(...played.errors)
    if (recorded !== null) different.push(...differences(entry, played, recorded))
    for (const { fault, id, reason, told, verdict } of played.judged) {
      if (entry.contestant.name === "gateway" && isWrong(verdict)) {
        say(`WRONG ${nameOf(entry)} ${fault} ${id}: ${verdict}, told ${told} ${reason}`)
      }
    }
  }
}

const report: FaultsReport = {
  machine: machine(),
  seed: options.seed,
  seconds: Math.round((performance.now() - begun) / 1000),
  parallel: options.parallel,
  contestants: chosen.flatMap(({ name, variants, versions }) =>
    variants.map((variant) => ({ ...variant, contestant: name, versions }))
  ),
  rows,
  timelines,
  errors
}
if (options.out !== null) fs.writeFileSync(options.out, `${JSON.stringify(report, null, 1)}\n`)
process.stdout.write(toTable(report))
for (const line of different) say(`DIFFERENT ${line}`)
if (recorded !== null) say(`${different.length} verdicts differ from ${options.against}`)
// The sockets of ended processes may still be open.
process.exit(
  errors.length > 0 || different.length > 0 || rows.some((row) => row.contestant === "gateway" && wrongOf(row) > 0)
    ? 1
    : 0
)
