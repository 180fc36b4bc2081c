/** The implementation of the endpoint. The ledger implements idempotency. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Layer from "effect/Layer"
import * as CompiledGroup from "financial-agents-gateway/dispatch/CompiledGroup"
import { MutationEndpoints } from "financial-agents-gateway/server/MutationEndpoints"
import { PaymentsApi, paymentsWrite } from "./Api.ts"

const Payments = CompiledGroup.group(
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

/** The routes of the endpoint. */
export const PaymentsRoutes = HttpApiBuilder.layer(PaymentsApi).pipe(
  Layer.provide(Payments),
  Layer.provide(MutationEndpoints.layer)
)
