/**
 * Reports this process, the pauses of its providers and its clock to operators: at once, every ten seconds, and when a pause begins or ends.
 * No work depends on a report, and none waits for it.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { ProviderName } from "../domain/Grant.ts"
import { pauseReasons } from "../domain/operators/FiguresForm.ts"
import type { Claims } from "../services/queue/Claims.ts"
import { Maintenance } from "../services/queue/Maintenance.ts"
import { ClockCheck } from "./attempts/ClockCheck.ts"
import { passable } from "./providers/Circuit.ts"
import { ProviderPauses } from "./providers/ProviderPauses.ts"
import { Providers } from "./providers/Providers.ts"
import { repeatStatement } from "./storeStatements.ts"
import { SubmissionPolicy } from "./SubmissionPolicy.ts"

/** Operators take a process for gone that has not reported itself for 30 seconds. */
const interval = Duration.seconds(10)

/** How long a stop waits until the report is removed. */
const farewell = Duration.seconds(1)

/** Why each provider is paused; null if it is not. */
const readPauses = Effect.fnUntraced(
  function*(
    breaker: CircuitBreaker.CircuitBreaker,
    pauses: ProviderPauses["Service"],
    providers: Iterable<ProviderName>
  ) {
    const entries: Array<readonly [ProviderName, string | null]> = []
    for (const provider of providers) {
      const isOpen = (yield* passable(breaker, provider, "submissions")) < Infinity
      const away = pauses.unreachable(provider)
      const circuit = away === null ? pauseReasons.circuit : `${pauseReasons.circuit}: ${away}`
      entries.push([provider, pauses.reasonOf(provider) ?? (isOpen ? circuit : null)])
    }
    return Object.fromEntries(entries)
  }
)

/** Reports until its scope closes, and then removes the report. */
export const layer: Layer.Layer<
  never,
  never,
  Claims | Maintenance | Providers | CircuitBreaker.CircuitBreaker
> = Layer.effectDiscard(Effect.gen(function*() {
  const { forgetWorker, reportWorker } = yield* Maintenance
  const { measure } = yield* ClockCheck
  const { workerId: worker_id } = yield* SubmissionPolicy
  const providers = yield* Providers
  const breaker = yield* CircuitBreaker.CircuitBreaker
  const providerPauses = yield* ProviderPauses
  const process_id = crypto.randomUUID()
  /** A report under way would come back after its removal. */
  const oneAtATime = yield* Semaphore.make(1)
  const changed = yield* Latch.make()

  const report = Effect.gen(function*() {
    // Closed before the pauses are read: a change after that is reported next.
    yield* changed.close
    const pauses = yield* readPauses(breaker, providerPauses, providers.keys())
    const clock_skew_ms = yield* measure
    yield* reportWorker({ process_id, worker_id, pauses, clock_skew_ms })
  })

  yield* Effect.addFinalizer(() =>
    Effect.gen(function*() {
      const fiber = yield* Effect.forkDetach(Effect.ignoreCause(oneAtATime.withPermit(forgetWorker(process_id))))
      yield* Effect.interruptible(Effect.raceFirst(Fiber.await(fiber), Effect.sleep(farewell)))
    })
  )
  const changes = Stream.merge(breaker.transitions, providerPauses.changes)
  yield* Effect.forkScoped(Stream.runForEach(changes, () => changed.open))
  yield* repeatStatement({
    statement: oneAtATime.withPermit(report),
    failure: "Could not report this worker to operators; its work goes on, and it tries again",
    interval,
    again: changed.await
  })
})).pipe(Layer.provide([ClockCheck.layer, ProviderPauses.layer]))
