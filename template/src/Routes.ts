/** The implementation of the contract. The ledger accepts a transfer once for each idempotency key. */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Layer from "effect/Layer"
import { MutationEndpoints } from "financial-agents-gateway/server/MutationEndpoints"
import { TransfersApi, transfersWrite } from "./Api.ts"

const Transfers = HttpApiBuilder.group(
  TransfersApi,
  "transfers",
  Effect.fn(function*(handlers) {
    const mutations = yield* MutationEndpoints
    return handlers.handle(
      "transfer",
      ({ payload }) => mutations.accept({ type: "transfer", scope: transfersWrite, payload })
    )
  })
)

export const TransfersRoutes = HttpApiBuilder.layer(TransfersApi).pipe(Layer.provide(Transfers))
