/**
 * The payment endpoint of the example as a process without workers, and a way to issue and revoke grants by HTTP, for the clients
 * of a run. Its settings come from the environment.
 */
import { Duration, Effect, Layer, Redacted, Schema } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { PaymentsApi, paymentsWrite } from "../../../../examples/payments/Api.ts"
import { PaymentsRoutes } from "../../../../examples/payments/Handlers.ts"
import * as PostgresCluster from "../../../../src/cluster/PostgresCluster.ts"
import type { AuthorizationDetails } from "../../../../src/domain/AuthorizationDetails.ts"
import {
  ClientId,
  GrantId,
  operationsRead,
  PairwiseSubject,
  ProviderName,
  ResourceOwner
} from "../../../../src/domain/Grant.ts"
import * as GatewayApp from "../../../../src/node/GatewayApp.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { providerName } from "./Plan.ts"

/** All grants of a run name the same owner and client, and read the same operations. */
const request = {
  resource_owner: ResourceOwner.make("alice"),
  subject: PairwiseSubject.make("alice-as-seen-by-her-agent"),
  client_id: ClientId.make("agent"),
  provider: ProviderName.make(providerName),
  scopes: [operationsRead, paymentsWrite],
  expires_in: Duration.days(30)
}

/** Those of a grant whose budget pays for so many euros. */
const limitsOf = (euros: number): AuthorizationDetails => [
  { type: "financial_operations", budgets: [{ currency: "EUR", amount: `${euros}.00`, per: "grant" }] }
]

const away = Effect.succeed(HttpServerResponse.empty({ status: 503 }))

const Administration = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const grants = yield* Grants
  const issue = Effect.gen(function*() {
    const { budget } = yield* HttpServerRequest.schemaBodyJson(Schema.Struct({ budget: Schema.NullOr(Schema.Int) }))
    const limits = budget === null ? {} : { authorization_details: limitsOf(budget) }
    const { access_token, grant } = yield* grants.issue({ ...request, ...limits })
    return yield* HttpServerResponse.json({ id: grant.grant_id, access_token: Redacted.value(access_token) }, {
      status: 201
    })
  })
  const revoke = Effect.gen(function*() {
    const { id } = yield* HttpServerRequest.schemaBodyJson(Schema.Struct({ id: GrantId }))
    yield* grants.revoke(id)
    return HttpServerResponse.empty({ status: 204 })
  })
  yield* router.add("POST", "/test/grants", Effect.catchTag(issue, "StoreUnavailable", () => away))
  yield* router.add("POST", "/test/revocations", Effect.catchTag(revoke, "StoreUnavailable", () => away))
}))

GatewayApp.run({
  api: PaymentsApi,
  routes: Layer.merge(PaymentsRoutes, Administration),
  cluster: PostgresCluster.layer,
  migrate: false
})
