/**
 * The adapter for the bank: it builds requests and decodes answers. The bank is the sandbox here;
 * `src/sandbox/Protocol.ts` describes its protocol.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { byStatus, evidenceOf, firstOf, onBody } from "financial-agents-gateway/submission/HttpProvider"
import * as HttpProvider from "financial-agents-gateway/submission/HttpProvider"
import { ProviderReference, StatusAnswer, SubmissionAnswer } from "financial-agents-gateway/submission/ProviderAdapter"
import { Payment } from "./Api.ts"

// The bank echoes the idempotency key, which is the operation's id, and adds its own reference.
const Names = Schema.Struct({ reference: ProviderReference, idempotency_key: Schema.String })
const Pending = Schema.Struct({ ...Names.fields, status: Schema.Literal("pending") })
const Succeeded = Schema.Struct({ ...Names.fields, status: Schema.Literal("succeeded") })
const Failed = Schema.Struct({ ...Names.fields, status: Schema.Literal("failed"), code: Schema.String })
const Refusal = Schema.Struct({ code: Schema.String, idempotency_key: Schema.String })
const TooLate = Schema.Struct({ ...Refusal.fields, code: Schema.Literal("too_late") })
const NotFound = Schema.Struct({ ...Refusal.fields, code: Schema.Literal("not_found") })

/** The payment that an answer names. An answer that names another payment proves nothing. */
const namesOf = <R extends ProviderReference | null>(body: {
  readonly reference: R
  readonly idempotency_key: string
}) => ({ reference: body.reference, operation_id: body.idempotency_key })

const refused = <A extends typeof Refusal.Type>(schema: Schema.Codec<A, unknown>) =>
  onBody(
    schema,
    (body, answer) =>
      SubmissionAnswer.Rejected({
        code: body.code,
        names: namesOf({ ...body, reference: null }),
        evidence: evidenceOf(answer)
      })
  )

/** This bank carries out payments in euros. The ledger refuses other payments at the endpoint, with 422. */
const EuroPayment = Schema.Struct({ ...Payment.fields, currency: Schema.Literal("EUR") })

export const payloads = { payment: EuroPayment }

/**
 * What clients read of a refusal. The text of the bank stays in the evidence, for operators. Clients read a code that is not
 * declared here as `provider_rejected`.
 */
const failures = {
  account_closed: { message: "The account is closed." },
  insufficient_funds: { message: "The account does not hold the amount." },
  limit_exceeded: { message: "The amount exceeds the limit of the account." },
  too_late: { message: "The payment reached the bank too late, and was not carried out." }
}

/** The bank at this address. After an answer that is not declared here, the outcome stays uncertain. */
export const layer = (baseUrl: string, token: Redacted.Redacted<string>) =>
  HttpProvider.layer({
    baseUrl,
    payloads,
    failures,
    // If your bank has credentials for each customer, choose them by `operation.provider_connection_id`.
    credentials: () => Effect.succeed({ authorization: Redacted.make(`Bearer ${Redacted.value(token)}`) }),
    // The bank refuses a request that arrives after `Send-Before`. It does not document when "not found" is final.
    promises: { keys: "for_ever", readByOperationId: "yes", lateRequests: { header: "Send-Before" } },
    submit: {
      request: (_, payload, type) => ({ path: "/mutations", body: { type, payload } }),
      decode: byStatus({
        200: onBody(
          Succeeded,
          (body, answer) => SubmissionAnswer.Succeeded({ names: namesOf(body), evidence: evidenceOf(answer) })
        ),
        202: onBody(
          Pending,
          (body, answer) => SubmissionAnswer.Acknowledged({ names: namesOf(body), evidence: evidenceOf(answer) })
        ),
        // The bank documents these codes as final refusals. 409 also answers a known key: that proves nothing.
        409: refused(TooLate),
        422: refused(Refusal)
      })
    },
    status: {
      request: ({ id }) => ({ path: `/mutations/${id}` }),
      decode: byStatus({
        200: firstOf(
          onBody(
            Pending,
            (body, answer) =>
              StatusAnswer.Proven({ state: "submitted", names: namesOf(body), evidence: evidenceOf(answer) })
          ),
          onBody(
            Succeeded,
            (body, answer) =>
              StatusAnswer.Proven({ state: "succeeded", names: namesOf(body), evidence: evidenceOf(answer) })
          ),
          onBody(Failed, (body, answer) =>
            StatusAnswer.Proven({
              state: "failed",
              code: body.code,
              names: namesOf(body),
              evidence: evidenceOf(answer)
            }))
        ),
        404: onBody(
          NotFound,
          (body, answer) =>
            StatusAnswer.NotFound({ names: namesOf({ ...body, reference: null }), evidence: evidenceOf(answer) })
        )
      })
    }
  })
