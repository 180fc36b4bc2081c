/**
 * The adapter for the bank: it builds the requests, and declares the meaning of each answer. An answer that is not declared
 * here leaves the outcome uncertain, and a status read settles it later.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as HttpProvider from "financial-agents-gateway/submission/HttpProvider"
import { ProviderReference, StatusAnswer, SubmissionAnswer } from "financial-agents-gateway/submission/ProviderAdapter"
import { Transfer } from "./Transfer.ts"

/** The name of the bank in grants. */
export const bankName = "bank"

// The bank echoes the idempotency key, which is the id of the operation.
const Booked = Schema.Struct({ id: ProviderReference, key: Schema.String, status: Schema.Literal("booked") })
const Refused = Schema.Struct({ key: Schema.String, code: Schema.Literals(["limit_exceeded", "too_late"]) })
const NotFound = Schema.Struct({ key: Schema.String, code: Schema.Literal("not_found") })

const booked = HttpProvider.onBody(Booked, ({ id, key }, answer) =>
  SubmissionAnswer.Succeeded({
    names: { reference: id, operation_id: key },
    evidence: HttpProvider.evidenceOf(answer)
  }))

const refused = HttpProvider.onBody(Refused, ({ code, key }, answer) =>
  SubmissionAnswer.Rejected({
    code,
    names: { reference: null, operation_id: key },
    evidence: HttpProvider.evidenceOf(answer)
  }))

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
    credentials: () => Effect.succeed({ authorization: Redacted.make(`Bearer ${Redacted.value(apiKey)}`) }),
    // The bank refuses a request that arrives after `Send-Before`. It does not document when "not found" is final.
    promises: { keys: "for_ever", readByOperationId: "yes", lateRequests: { header: "Send-Before" } },
    submit: {
      request: (_operation, transfer) => ({ path: "/transfers", body: transfer }),
      decode: HttpProvider.byStatus({
        200: booked,
        201: booked,
        // The bank documents that it then did nothing. Transfers wait until the key is repaired.
        401: HttpProvider.wrongCredentials,
        409: refused,
        422: refused
      })
    },
    status: {
      request: ({ id }) => ({ path: `/transfers/${id}` }),
      decode: HttpProvider.byStatus({
        200: HttpProvider.onBody(Booked, ({ id, key }, answer) =>
          StatusAnswer.Proven({
            state: "succeeded",
            names: { reference: id, operation_id: key },
            evidence: HttpProvider.evidenceOf(answer)
          })),
        404: HttpProvider.onBody(NotFound, ({ key }, answer) =>
          StatusAnswer.NotFound({
            names: { reference: null, operation_id: key },
            evidence: HttpProvider.evidenceOf(answer)
          })),
        // It proves nothing of the transfer, and the log names the wrong key.
        401: HttpProvider.wrongCredentials
      })
    }
  })
