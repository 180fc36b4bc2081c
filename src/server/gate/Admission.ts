/** The step of the gate that gives a request a slot and a deadline. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { ProblemOf } from "../../api/Problems.ts"
import { HttpMetrics } from "../../metrics/HttpMetrics.ts"
import { Lifecycle, type RunningRequest } from "./Lifecycle.ts"
import { Problems } from "./ProblemResponses.ts"

/** The slot of the current request, for handlers that wait without it. Null outside of the gate. */
export const CurrentSlot: Context.Reference<RunningRequest | null> = Context.Reference<RunningRequest | null>(
  "financial-agents-gateway/server/gate/Admission/CurrentSlot",
  { defaultValue: () => null }
)

/** A request that has a slot. */
export interface Admitted {
  readonly slot: RunningRequest
  /** Runs the effect in a slot of the client. Fails with a problem if too many requests of the client run. */
  readonly forClient: <A, E, R>(
    client: string,
    effect: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | ProblemOf<"service_unavailable">, R>
}

/** Whether an interruption ends the fiber at once. A fiber that does not tell counts as such. */
const isInterruptible = (fiber: object): boolean => !("interruptible" in fiber) || fiber.interruptible !== false

/**
 * Makes the step. It fails with a problem if too many requests run, or the shutdown has begun.
 *
 * The deadline interrupts the fiber that runs the effect. A fiber that is interruptible throughout would end then, and could not
 * answer. So the effect runs in a fiber of its own there; the routes of the gateway need none.
 */
export const makeAdmit = Effect.gen(function*() {
  const lifecycle = yield* Lifecycle
  const problems = yield* Problems
  const metrics = yield* HttpMetrics
  const { maxInFlight, maxInFlightPerClient } = lifecycle.options
  const refuse = (cause: string) =>
    problems.fail("service_unavailable", {
      detail: "Too many requests are running, or the gateway is shutting down.",
      cause
    })
  const saturated = refuse(`the process runs its maximum of ${maxInFlight} requests`)
  const draining = refuse("the gateway is shutting down")
  const tooMany = problems.fail("service_unavailable", {
    detail: "The client has too many running requests.",
    cause: `the client runs its maximum of ${maxInFlightPerClient} requests`
  })

  const clientOf = (running: RunningRequest): Admitted["forClient"] => (client, effect) => {
    if (lifecycle.admitClient(running, client)) return effect
    metrics?.refuse("client_saturated")
    return tooMany
  }

  /** `run` makes an effect for the context of the request, and does nothing else. */
  return <A, E, R>(run: (admitted: Admitted, context: Context.Context<R>) => Effect.Effect<A, E, R>) => {
    const runIn = (fiber: Fiber.Fiber<unknown, unknown>): Effect.Effect<A, E | ProblemOf<"service_unavailable">, R> => {
      const running = lifecycle.admit(fiber)
      if (running === null) {
        const isDraining = lifecycle.isDraining()
        metrics?.refuse(isDraining ? "draining" : "saturated")
        return isDraining ? draining : saturated
      }
      return Effect.onExit(
        // The fiber runs an effect that requires this context.
        Effect.interruptible(run({ slot: running, forClient: clientOf(running) }, fiber.context as Context.Context<R>)),
        () => {
          if (!running.isHandedOver) lifecycle.leave(running)
          return Effect.void
        }
      )
    }
    const inChild = Effect.flatMap(Effect.forkChild(Effect.withFiber(runIn)), Fiber.join)
    return Effect.withFiber<A, E | ProblemOf<"service_unavailable">, R>((fiber) =>
      isInterruptible(fiber) ? inChild : runIn(fiber)
    )
  }
})
