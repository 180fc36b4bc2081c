/**
 * `npm run chaos`: four workers, the sandbox and PostgreSQL as processes of their own, and every kind of fault while
 * operations are accepted.
 *
 *     npm run chaos -- --operations 2000 --faults 100
 *
 * Prints the figures, and exits with 1 if a figure breaks its rule. With --control it exits with 0 if the judge found the
 * mistake, and with 1 if it found nothing.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import * as fs from "node:fs"
import { choice, readOptions, text, unwritable, whole } from "../../../../bench/shared/usage.ts"
import { operationStates } from "../../../../src/domain/Operation.ts"
import { conclude, table, tally } from "../kit/Figure.ts"
import { judge } from "../kit/Judge.ts"
import { mistakes } from "../kit/Mistakes.ts"
import { perSecond, stateRows, timeline } from "../kit/Timeline.ts"
import { controls, runChaos } from "./Chaos.ts"

const values = readOptions(import.meta.url, {
  operations: whole("Operations that are accepted at least", { from: 1, to: 10_000_000, default: 20_000 }),
  faults: whole("Faults of processes and networks, besides the provider's own", {
    from: 0,
    to: 1_000_000,
    default: 1000
  }),
  seed: text("Chooses the order of the faults and the requests; their times depend on the machine", {
    takes: "TEXT",
    default: "chaos"
  }),
  duration: whole("Seconds after which acceptances and faults end", { from: 1, to: 86_400, default: 900 }),
  plot: text("File of the picture", { takes: "FILE", default: "chaos.svg", problem: unwritable }),
  control: choice("Builds a known mistake into the workers, which the judge must find", controls)
})
const { control, duration, faults, operations, plot, seed } = values

const started = performance.now()
const seconds = () => ((performance.now() - started) / 1000).toFixed(0)

runChaos({
  operations,
  faults,
  seed,
  duration,
  say: (line) => void process.stderr.write(`${seconds().padStart(4)} s  ${line}\n`),
  ...control !== null && { mistake: control }
}).pipe(
  Effect.flatMap((evidence) =>
    Effect.sync(() => {
      const { acceptances, injected, outages, receipts, samples, sent, workerStarts } = evidence
      const start = samples[0]?.at ?? 0
      const picture = timeline({
        title: `${acceptances.length} operations, ${injected.length} faults: operations by state over time`,
        legend: "Shaded: the database was down.",
        start,
        end: samples.at(-1)?.at ?? start,
        rows: [
          ...stateRows(samples, start),
          { name: "faults", colour: "#b00020", values: perSecond(injected.map(({ at }) => at), start) }
        ],
        bands: outages.map((outage) => ({ ...outage, opacity: 0.12 }))
      })
      fs.writeFileSync(plot, picture)
      const down = outages.reduce((sum, { from, to }) => sum + to - from, 0)
      conclude(
        judge(evidence),
        [
          table([
            ["operations at the end", String(evidence.operations.length)],
            ...operationStates.map((state) => [
              state,
              String(evidence.operations.filter((operation) => operation.state === state).length)
            ])
          ]),
          tally("faults of processes and networks", injected.map(({ name }) => name)),
          tally("submissions received by the provider, by outcome", receipts.map(({ outcome }) => outcome)),
          table([
            ["workers started", String(workerStarts)],
            ["submissions sent by workers", String([...sent.values()].reduce((sum, times) => sum + times, 0))],
            ["database down (ms)", String(down)]
          ])
        ],
        `seed ${seed}, ${seconds()} s, states over time in ${plot}`,
        control === null ? null : mistakes[control]
      )
    })
  ),
  NodeRuntime.runMain
)
