/**
 * The endpoint, implemented. Whatever is said of idempotency is said by the ledger.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Layer from "effect/Layer"
import { AdmissionLayer } from "../../src/server/Admission.ts"
import { AuthorizationLayer } from "../../src/server/Authorization.ts"
import { ConformanceLayer } from "../../src/server/Conformance.ts"
import { MutationEndpoints, MutationRequestLayer } from "../../src/server/MutationEndpoints.ts"
import { Problems } from "../../src/server/ProblemResponses.ts"
import { PaymentsApi, paymentsWrite } from "./Api.ts"

const Payments = HttpApiBuilder.group(
  PaymentsApi,
  "payments",
  Effect.fn(function*(handlers) {
    const mutations = yield* MutationEndpoints
    return handlers.handle(
      "pay",
      ({ payload }) => mutations.accept({ type: "payment", scope: paymentsWrite, payload })
    )
  })
)

/** For the router of the application. */
export const PaymentsRoutes = HttpApiBuilder.layer(PaymentsApi).pipe(
  Layer.provide(Payments),
  Layer.provide([MutationEndpoints.layer, MutationRequestLayer, AuthorizationLayer, AdmissionLayer, ConformanceLayer]),
  Layer.provide(Problems.layer)
)
