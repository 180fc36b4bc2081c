/**
 * One circuit for each provider, which submissions and status reads share: where no status can be read, no money should
 * be sent.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import type { Provider as ProviderName } from "../domain/Grant.ts"
import { layerCircuit } from "../http/layerCircuit.ts"
import type { NotSent, StatusAnswer, SubmissionAnswer, Uncertain } from "./Provider.ts"

/**
 * Opens after five failures in a row, for a second at first and for half a minute at most. Kept in the process: to
 * share circuits between processes, provide a `CircuitBreaker` on a store of your own.
 */
export const layerCircuitBreaker: Layer.Layer<CircuitBreaker.CircuitBreaker> = layerCircuit({ failures: 5 })

/** An answer shows that the provider is there, a refusal too. What failed on our side shows nothing. */
export const classifyAttempt = (exit: Exit.Exit<SubmissionAnswer, NotSent | Uncertain>): CircuitBreaker.Outcome => {
  if (Exit.isSuccess(exit)) return CircuitBreaker.success
  const error = Option.getOrNull(Cause.findErrorOption(exit.cause))
  return error?._tag === "NotSent" && error.isLocal === true ? CircuitBreaker.ignored : CircuitBreaker.failure()
}

/** A read that proves nothing still shows that the provider is there, unless the network failed. */
export const classifyRead = (exit: Exit.Exit<StatusAnswer>): CircuitBreaker.Outcome =>
  Exit.isSuccess(exit) && !(exit.value._tag === "NotProven" && exit.value.reason === "unreachable")
    ? CircuitBreaker.success
    : CircuitBreaker.failure()

/** How many calls the circuit of a provider would let through now: all, one that probes, or none. */
export const passable = (
  breaker: CircuitBreaker.CircuitBreaker,
  provider: ProviderName
): Effect.Effect<number> =>
  breaker.state(provider).pipe(
    Effect.map((state) => {
      switch (state._tag) {
        case "Closed":
          return Infinity
        case "Open":
          return Duration.isZero(state.retryAfter) ? 1 : 0
        case "HalfOpen":
          return state.probing ? 0 : 1
      }
    }),
    // The breaker lets calls through where it cannot look.
    Effect.orElseSucceed(() => Infinity)
  )
