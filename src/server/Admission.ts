/**
 * Middleware that limits how many requests run at once, and for how long each may run.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Admission } from "../api/Middleware.ts"
import { Lifecycle } from "./Lifecycle.ts"
import { Problems } from "./ProblemResponses.ts"

/** Implements `Admission` with the limits of `Lifecycle`. */
export const AdmissionLayer: Layer.Layer<Admission, never, Lifecycle | Problems> = Layer.effect(
  Admission,
  Effect.gen(function*() {
    const lifecycle = yield* Lifecycle
    const problems = yield* Problems
    return Admission.of((httpEffect) =>
      lifecycle.admit(
        Effect.timeoutOrElse(httpEffect, {
          duration: lifecycle.options.deadline,
          orElse: () => problems.fail("service_unavailable", { detail: "The store did not answer in time." })
        }),
        problems.fail("service_unavailable", {
          detail: "Too many requests are running, or the gateway is shutting down."
        })
      )
    )
  })
)
