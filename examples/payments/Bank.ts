/**
 * The adapter for the bank: how its requests look, and what its answers mean. The bank is the sandbox here; its protocol
 * is described in `src/sandbox/Protocol.ts`.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { byStatus, evidenceOf, firstOf, onBody } from "financial-agents-gateway/submission/HttpProvider"
import * as HttpProvider from "financial-agents-gateway/submission/HttpProvider"
import { ProviderReference, StatusAnswer, SubmissionAnswer } from "financial-agents-gateway/submission/Provider"

// The bank echoes the key under which it was asked, which is the operation's id, and its own reference.
const Names = Schema.Struct({ reference: ProviderReference, idempotency_key: Schema.String })
const Pending = Schema.Struct({ ...Names.fields, status: Schema.Literal("pending") })
const Succeeded = Schema.Struct({ ...Names.fields, status: Schema.Literal("succeeded") })
const Failed = Schema.Struct({
  ...Names.fields,
  status: Schema.Literal("failed"),
  code: Schema.String,
  message: Schema.String
})
const Refusal = Schema.Struct({ code: Schema.String, message: Schema.String, idempotency_key: Schema.String })
const TooLate = Schema.Struct({ ...Refusal.fields, code: Schema.Literal("too_late") })
const NotFound = Schema.Struct({ ...Refusal.fields, code: Schema.Literal("not_found") })

/** Which payment an answer is about, as it says itself: the ledger believes no answer about another one. */
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
        message: body.message,
        names: namesOf({ ...body, reference: null }),
        evidence: evidenceOf(answer)
      })
  )

/** The bank at this address. Whatever it answers that is not declared here leaves the outcome open. */
export const layer = (baseUrl: string, token: Redacted.Redacted<string>) =>
  HttpProvider.layer({
    baseUrl,
    // A bank with credentials for each customer would be given those of `operation.provider_connection_id`.
    credentials: () => Effect.succeed({ authorization: Redacted.make(`Bearer ${Redacted.value(token)}`) }),
    // The bank refuses what comes later than this, so nothing can be carried out behind the ledger's back.
    sendBeforeHeader: "Send-Before",
    submit: {
      request: ({ type }, payload) => ({ path: "/mutations", body: { type, payload } }),
      decode: byStatus({
        200: onBody(
          Succeeded,
          (body, answer) => SubmissionAnswer.Succeeded({ names: namesOf(body), evidence: evidenceOf(answer) })
        ),
        202: onBody(
          Pending,
          (body, answer) => SubmissionAnswer.Acknowledged({ names: namesOf(body), evidence: evidenceOf(answer) })
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
              message: body.message,
              names: namesOf(body),
              evidence: evidenceOf(answer)
            }))
        ),
        // The bank may not know it yet, so this proves nothing.
        404: onBody(
          NotFound,
          (body) =>
            StatusAnswer.NotProven({
              reason: "not_found",
              detail: "the bank does not know it",
              names: namesOf({ ...body, reference: null })
            })
        )
      })
    }
  })
