/**
 * The adapter for the bank: how its requests look, and what its answers mean. The bank is the sandbox here; its protocol
 * is described in `src/sandbox/Protocol.ts`.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { ProviderReference } from "../../src/domain/Submission.ts"
import { byStatus, evidenceOf, firstOf, onBody } from "../../src/submission/HttpDecoding.ts"
import * as HttpProvider from "../../src/submission/HttpProvider.ts"
import { StatusAnswer, SubmissionAnswer } from "../../src/submission/Provider.ts"

const Pending = Schema.Struct({ status: Schema.Literal("pending"), reference: ProviderReference })
const Succeeded = Schema.Struct({ status: Schema.Literal("succeeded"), reference: ProviderReference })
const Failed = Schema.Struct({ status: Schema.Literal("failed"), code: Schema.String, message: Schema.String })
const Refusal = Schema.Struct({ code: Schema.String, message: Schema.String })
const TooLate = Schema.Struct({ ...Refusal.fields, code: Schema.Literal("too_late") })
const NotFound = Schema.Struct({ code: Schema.Literal("not_found") })

const refused = <A extends typeof Refusal.Type>(schema: Schema.Codec<A, unknown>) =>
  onBody(
    schema,
    ({ code, message }, answer) => SubmissionAnswer.Rejected({ code, message, evidence: evidenceOf(answer) })
  )

/** The bank at this address. Whatever it answers that is not declared here leaves the outcome open. */
export const layer = (baseUrl: string, token: Redacted.Redacted<string>) =>
  HttpProvider.layer({
    baseUrl,
    // A bank with credentials for each customer would be given those of `operation.provider_binding_id`.
    credentials: () => Effect.succeed({ authorization: Redacted.make(`Bearer ${Redacted.value(token)}`) }),
    // The bank refuses what comes later than this, so nothing can be carried out behind the ledger's back.
    sendBeforeHeader: "Send-Before",
    submit: {
      request: ({ type }, payload) => ({ path: "/mutations", body: { type, payload } }),
      decode: byStatus({
        200: onBody(Succeeded, (_, answer) => SubmissionAnswer.Succeeded({ evidence: evidenceOf(answer) })),
        202: onBody(
          Pending,
          ({ reference }, answer) => SubmissionAnswer.Acknowledged({ reference, evidence: evidenceOf(answer) })
        ),
        // Documented by the bank as refused for ever. It says 409 for a key that it knows, too: that proves nothing.
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
            ({ reference }, answer) =>
              StatusAnswer.Proven({ state: "submitted", reference, evidence: evidenceOf(answer) })
          ),
          onBody(
            Succeeded,
            (_, answer) => StatusAnswer.Proven({ state: "succeeded", evidence: evidenceOf(answer) })
          ),
          onBody(Failed, ({ code, message }, answer) =>
            StatusAnswer.Proven({ state: "failed", code, message, evidence: evidenceOf(answer) }))
        ),
        // The bank may not know it yet, so this proves nothing.
        404: onBody(
          NotFound,
          () =>
            StatusAnswer.NotProven({ reason: "not_found", detail: "the bank does not know it" })
        )
      })
    }
  })
