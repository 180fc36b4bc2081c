import type * as Duration from "effect/Duration"
import * as Layer from "effect/Layer"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Schedule from "effect/Schedule"

/**
 * Circuit breakers that open after `failures` consecutive failures: for one second at first, twice as long after each
 * failed probe, and for 30 seconds at most. Their state stays in the process. A circuit without calls for
 * `idleTimeToLive` forgets its failures; default: one hour.
 */
export const layerCircuit = (
  { failures, idleTimeToLive }: { readonly failures: number; readonly idleTimeToLive?: Duration.Input }
): Layer.Layer<CircuitBreaker.CircuitBreaker> =>
  CircuitBreaker.layer({
    tripPolicy: CircuitBreaker.consecutive(failures),
    openDuration: Schedule.min([Schedule.exponential("1 second"), Schedule.spaced("30 seconds")])
  }).pipe(Layer.provide(CircuitBreaker.layerStoreMemory({ idleTimeToLive })))
