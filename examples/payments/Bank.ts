/**
 * The adapter for the bank: it builds requests and decodes answers. The bank is the sandbox here;
 * `src/sandbox/Protocol.ts` describes its protocol.
 */
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as HttpProvider from "financial-agents-gateway/submission/HttpProvider"
import { ProviderReference } from "financial-agents-gateway/submission/ProviderAdapter"
import { Payment } from "./Api.ts"

// The bank echoes the idempotency key, which is the operation's id, and adds its own reference.
const Answered = Schema.Struct({
  reference: ProviderReference,
  idempotency_key: Schema.String,
  status: Schema.Literals(["pending", "succeeded", "failed"]),
  code: Schema.optionalKey(Schema.String)
})
const Refusal = Schema.Struct({
  code: Schema.String,
  idempotency_key: Schema.String,
  message: Schema.optionalKey(Schema.String)
})
const TooLate = Schema.Struct({ ...Refusal.fields, code: Schema.Literal("too_late") })
const NotFound = Schema.Struct({ ...Refusal.fields, code: Schema.Literal("not_found") })

/** The payment as the bank shows it. An answer that names another payment proves nothing. */
const answered = HttpProvider.declareOrder({
  schema: Answered,
  names: ({ idempotency_key, reference }) => ({ reference, operation_id: idempotency_key }),
  result: ({ code = "provider_rejected", status }) =>
    status === "failed" ? { state: status, code } : { state: status === "pending" ? "submitted" : status }
})

// A refusal has no reference.
const named = ({ idempotency_key }: { readonly idempotency_key: string }) => ({
  reference: null,
  operation_id: idempotency_key
})
const refused = (schema: Schema.Codec<typeof Refusal.Type, unknown>) =>
  HttpProvider.refusal(schema, ({ code }) => code, named)

/** This bank carries out payments in euros. The ledger refuses other payments at the endpoint, with 422. */
const EuroPayment = Schema.Struct({ ...Payment.fields, currency: Schema.Literal("EUR") })

export const payloads = { payment: EuroPayment }

/** What clients read of a refusal, beside the common codes. The text of the bank stays in the evidence, for operators. */
const failures = { too_late: { message: "The payment reached the bank too late, and was not carried out." } }

/** The bank at this address. After an answer that is not declared here, the outcome stays uncertain. */
export const layer = (baseUrl: string, token: Redacted.Redacted<string>) =>
  HttpProvider.layer({
    baseUrl,
    payloads,
    failures,
    // If your bank has credentials for each customer, choose them by `operation.provider_connection_id`.
    credentials: () => Effect.succeed(HttpProvider.bearer(token)),
    // The bank refuses a request that arrives after `Send-Before`. It does not document when "not found" is final.
    promises: { keys: "for_ever", readByOperationId: "yes", lateRequests: { header: "Send-Before" } },
    submit: {
      request: (_, payload, type) => ({ path: "/mutations", body: { type, payload } }),
      decode: HttpProvider.byStatus({
        200: answered.submitted,
        202: answered.submitted,
        // The bank documents these codes as final refusals. 409 also answers a known key: that proves nothing.
        409: refused(TooLate),
        422: refused(Refusal),
        401: HttpProvider.wrongCredentials
      })
    },
    status: {
      request: ({ id }) => ({ path: `/mutations/${id}` }),
      decode: HttpProvider.byStatus({
        200: answered.read,
        404: HttpProvider.notFound(NotFound, named),
        401: HttpProvider.wrongCredentials
      })
    }
  })
