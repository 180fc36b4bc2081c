/**
 * `switchover`: holds the accepted operations, waits until a standby is promoted, and releases what it can prove.
 */
import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { type BegunSwitchover, Switchover, type SwitchoverRound } from "../../cluster/Switchover.ts"
import type { ActingOperator } from "../../domain/operators/OperatorView.ts"
import { actingFlags, actingOperator, Lifetime, textOr } from "../Flags.ts"
import { CommandFailed, print } from "../Output.ts"

/** Between two rounds. Operations that are accepted after the last round have no hold. */
const interval = Duration.millis(200)

/** The holds outlast the command by this. Afterwards reconcilers examine the operations, as after a failover. */
const margin = Duration.minutes(10)

const eachSecond = (duration: Duration.Duration) => Schedule.spaced("1 second").pipe(Schedule.upTo({ duration }))

/** What the command has learnt while it waits. */
interface Waiting {
  last: SwitchoverRound | null
  isPromoted: boolean
}

/** Rounds until the timeline changes. Without a primary it tries again: that is what a switchover looks like. */
const untilPromoted = (begun: BegunSwitchover, waiting: Waiting) =>
  Switchover.use(({ round }) => round(begun)).pipe(
    Effect.map((now) => {
      waiting.isPromoted = now.timeline !== begun.timeline
      if (!waiting.isPromoted) {
        waiting.last = { ...now, is_worker_seen: now.is_worker_seen || waiting.last?.is_worker_seen === true }
      }
      return waiting.isPromoted
    }),
    Effect.catchTag("StoreUnavailable", () => Effect.succeed(false)),
    Effect.repeat({ until: (isPromoted) => isPromoted, schedule: Schedule.spaced(interval) })
  )

const finish = (begun: BegunSwitchover, waiting: Waiting, operator: ActingOperator) =>
  Switchover.use((service) => service.finish(begun, waiting.last, operator))

export const switchover = Command.make(
  "switchover",
  {
    drainTimeout: textOr("drain-timeout", "How long to wait until no worker reports itself any more", "60s", Lifetime),
    promoteWithin: textOr("promote-within", "How long to wait for the promotion", "10m", Lifetime),
    ...actingFlags
  },
  Effect.fn(function*({ drainTimeout, promoteWithin, ...acting }) {
    const service = yield* Switchover
    const operator = actingOperator(acting)
    const begun = yield* service.begin(operator, Duration.sum(promoteWithin, margin)).pipe(
      Effect.retry({
        while: (error) => error._tag === "WorkersRunning",
        schedule: eachSecond(drainTimeout)
      })
    )
    const waiting: Waiting = { last: null, isPromoted: false }
    yield* Console.error(
      `Held ${begun.held} operations on timeline ${begun.timeline}. Promote the standby now, and start no worker before this `
        + "command ends."
    )
    // A signal, too, takes the holds back, unless the database is gone.
    const takeBack = Effect.timeoutOption(finish(begun, waiting, operator), "10 seconds")
    yield* untilPromoted(begun, waiting).pipe(
      Effect.timeoutOption(promoteWithin),
      Effect.onInterrupt(() => Effect.ignoreCause(takeBack))
    )
    if (!waiting.isPromoted) {
      const { released } = yield* finish(begun, waiting, operator)
      return yield* new CommandFailed({
        message:
          `the timeline is ${begun.timeline} as before: no standby was promoted. ${released} operations were released again`
      })
    }
    // The new primary may not answer each statement yet.
    const finished = yield* Effect.retry(finish(begun, waiting, operator), {
      while: (error) => error._tag === "StoreUnavailable",
      schedule: eachSecond(Duration.minutes(1))
    })
    if (finished.still_held > 0) {
      yield* Console.error(
        `${finished.still_held} operations stay held. See them: \`operations list --held\`. Status reads settle them, or \`operations `
          + "release ID` after you asked the provider."
      )
    }
    yield* print({ from_timeline: begun.timeline, held: begun.held, ...finished })
  })
).pipe(
  Command.withDescription(
    "Prepare a planned switchover of the database, wait for it, and release what was held for it. Stop all workers first. The "
      + "command releases nothing unless the new primary has what the old one acknowledged"
  ),
  Command.withShortDescription("Hold operations for a planned switchover, and release them after it"),
  Command.withExamples([
    {
      command: "financial-agents-gateway switchover --reason 'kernel of db1'",
      description: "In a second terminal, promote the standby as soon as the command says so"
    }
  ])
)
