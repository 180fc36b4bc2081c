import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import type { StoreUnavailable } from "../services/StoreUnavailable.ts"
import { logFailure } from "./logFailure.ts"
import { withinStore } from "./withinStore.ts"

/** A statement that runs at once, and again after each interval. */
interface RepeatedStatement {
  readonly statement: Effect.Effect<void, StoreUnavailable>
  /** The log message of a failure. */
  readonly failure: string
  readonly interval: Duration.Duration
  /** How long the statement may take. Default: `storeTimeout`. */
  readonly limit?: "storeTimeout" | "prepareTimeout"
}

/** Runs a statement on which no work depends until the scope closes, the first time at once. A stop does not wait for it. */
export const repeatStatement = (
  { failure, interval, limit, statement }: RepeatedStatement
): Effect.Effect<void, never, Scope.Scope> => {
  const attempt = Effect.catchCause(withinStore(statement, limit), (cause) => logFailure(failure, cause))
  const detached = Effect.flatMap(Effect.forkDetach(attempt), Fiber.await)
  // Spans of an endless loop would only fill a collector.
  const loop = Effect.withTracerEnabled(Effect.forever(Effect.andThen(detached, Effect.sleep(interval))), false)
  return Effect.asVoid(Effect.forkScoped(loop))
}
