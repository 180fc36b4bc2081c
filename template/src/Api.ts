/** The contract of the application: `POST /v1/transfers`. Clients can import it, also in a browser. */
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import { mutationEndpoint } from "financial-agents-gateway/api/MutationEndpoint"
import { Scope } from "financial-agents-gateway/domain/Grant"
import { Transfer, transferTerms } from "./Transfer.ts"

/** The scope that a transfer requires. Reading its operation requires `operations:read`. */
export const transfersWrite = Scope.make("transfers:write")

export class TransfersApi extends HttpApi.make("transfers").add(
  HttpApiGroup.make("transfers").add(mutationEndpoint("transfer", "/v1/transfers", {
    payload: Transfer,
    terms: transferTerms,
    summary: "Transfer money",
    description: "Accepts a transfer. Requires the scope `transfers:write`."
  }))
).annotateMerge(OpenApi.annotations({ title: "Transfers", version: "1.0.0" })) {}
