/**
 * The adapter for the bank: it builds the requests, and declares the meaning of each answer. An answer that is not declared
 * here leaves the outcome uncertain, and a status read settles it later.
 */
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as HttpProvider from "financial-agents-gateway/submission/HttpProvider"
import { ProviderReference } from "financial-agents-gateway/submission/ProviderAdapter"
import { Transfer } from "./Transfer.ts"

/** The name of the bank in grants. */
export const bankName = "bank"

// The bank echoes the idempotency key, which is the id of the operation.
const Booked = Schema.Struct({ id: ProviderReference, key: Schema.String, status: Schema.Literal("booked") })
const Refused = Schema.Struct({ key: Schema.String, code: Schema.Literals(["limit_exceeded", "too_late"]) })
const NotFound = Schema.Struct({ key: Schema.String, code: Schema.Literal("not_found") })

const booked = HttpProvider.declareOrder({
  schema: Booked,
  names: ({ id, key }) => ({ reference: id, operation_id: key }),
  result: () => ({ state: "succeeded" })
})

// Without a booking there is no id.
const named = ({ key }: { readonly key: string }) => ({ reference: null, operation_id: key })
const refused = HttpProvider.refusal(Refused, ({ code }) => code, named)

/** What clients read of a refusal, by code. The text of the bank stays in the evidence, for operators. */
const failures = {
  limit_exceeded: { message: "The amount exceeds the limit of a transfer." },
  too_late: { message: "The transfer reached the bank too late, and was not booked." }
}

/** The bank at this URL. */
export const layer = (baseUrl: string, apiKey: Redacted.Redacted<string>) =>
  HttpProvider.layer({
    baseUrl,
    // The endpoint checks the same schema, so that the ledger holds no transfer that the bank cannot carry out.
    payloads: { transfer: Transfer },
    failures,
    // One account for all owners. If each has an account, choose its credentials by `operation.resource_owner`, or set `isPermitted`.
    credentials: () => Effect.succeed(HttpProvider.bearer(apiKey)),
    // The bank refuses a request that arrives after `Send-Before`. It does not document when "not found" is final.
    promises: { keys: "for_ever", readByOperationId: "yes", lateRequests: { header: "Send-Before" } },
    submit: {
      // A bank that takes minor units, such as cents, gets `toMinorUnits(transfer)` of `api/MutationEndpoint` as the amount.
      request: (_operation, transfer) => ({ path: "/transfers", body: transfer }),
      decode: HttpProvider.byStatus({
        200: booked.submitted,
        201: booked.submitted,
        // The bank documents that it then did nothing. Transfers wait until the key is repaired.
        401: HttpProvider.wrongCredentials,
        409: refused,
        422: refused
      })
    },
    status: {
      request: ({ id }) => ({ path: `/transfers/${id}` }),
      decode: HttpProvider.byStatus({
        200: booked.read,
        404: HttpProvider.notFound(NotFound, named),
        // It proves nothing of the transfer, and the log names the wrong key.
        401: HttpProvider.wrongCredentials
      })
    }
  })
