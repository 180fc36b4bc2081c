/**
 * `npm run chaos`: four workers, the sandbox and PostgreSQL as processes of their own, and every kind of fault while
 * operations are accepted.
 *
 *     npm run chaos -- --operations 2000 --faults 100
 *     npm run chaos -- --bank alpaca --faults 500
 *     npm run chaos -- --limits --operations 100000 --faults 500
 *
 * With --limits the grants have budgets, and a thousand callers ask for more than these. With --bank the provider is the simulator of a bank, and the workers have its adapter. On a machine that others use, FAULTS_SLOWNESS=5
 * multiplies the time limits of the workers and of the judge.
 *
 * Prints the figures, and exits with 1 if a figure breaks its rule. With --control it exits with 0 if the judge found the
 * mistake, and with 1 if it found nothing.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import { choice, flag, readOptions, text, whole } from "../../../../bench/shared/usage.ts"
import { operationStates } from "../../../../src/domain/Operation.ts"
import { bankNames } from "../kit/Banks.ts"
import { slowness } from "../kit/Clock.ts"
import { conclude, table, tally } from "../kit/Figure.ts"
import { forPeople, judge } from "../kit/Judge.ts"
import { mistakeNames, mistakes } from "../kit/Mistakes.ts"
import { runChaos } from "./Chaos.ts"

const values = readOptions(import.meta.url, {
  operations: whole("Requests that are answered at least", { from: 1, to: 10_000_000, default: 20_000 }),
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
  limits: flag("Grants with limits, and 1,000 callers"),
  bank: choice("Bank whose simulator and adapter it takes", bankNames),
  control: choice("Builds a known mistake into the workers, which the judge must find", mistakeNames)
})
const { bank, control, duration, faults, limits, operations, seed } = values

const started = performance.now()
const seconds = () => ((performance.now() - started) / 1000).toFixed(0)

runChaos({
  operations,
  faults,
  seed,
  duration,
  bank,
  spenders: limits ? { owners: 50, callers: 1000 } : null,
  say: (line) => void process.stderr.write(`${seconds().padStart(4)} s  ${line}\n`),
  ...control !== null && { mistake: control }
}).pipe(
  Effect.flatMap((evidence) =>
    Effect.sync(() => {
      const { injected, outages, receipts, sent, turnedAway, workerStarts } = evidence
      const people = forPeople(evidence)
      const share = 100 * (1 - people.length / evidence.operations.length)
      const down = outages.reduce((sum, { from, to }) => sum + to - from, 0)
      conclude(
        { ...judge(evidence, 1000 * slowness), ...evidence.spending },
        [
          table([
            ["operations at the end", String(evidence.operations.length)],
            ...operationStates.map((state) => [
              state,
              String(evidence.operations.filter((operation) => operation.state === state).length)
            ])
          ]),
          tally("faults of processes and networks", injected.map(({ name }) => name)),
          tally("faults of the provider, at submissions", [
            ...receipts.flatMap(({ faults }) => faults),
            ...Array.from({ length: turnedAway }, () => "too_many_requests, at reads too")
          ]),
          tally("operations that a person must end, by what the provider knows", people),
          tally("submissions received by the provider, by outcome", receipts.map(({ outcome }) => outcome)),
          table([
            [
              "requests refused by a limit",
              String(evidence.acceptances.filter(({ refused }) => refused === true).length)
            ],
            ["workers started", String(workerStarts)],
            ["settled without a person (%)", share.toFixed(2)],
            ["submissions sent by workers", String([...sent.values()].reduce((sum, times) => sum + times, 0))],
            ["database down (ms)", String(down)]
          ])
        ],
        `seed ${seed}, ${seconds()} s, slowness ${slowness}`,
        control === null ? null : mistakes[control]
      )
    })
  ),
  NodeRuntime.runMain
)
