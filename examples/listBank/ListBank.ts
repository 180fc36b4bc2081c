/**
 * The adapter for a bank that lists its transfers, and has no filter by the key: a status read finds the own key in the pages of the list.
 */
import { DateTime, Effect, type Redacted, Schema } from "effect"
import * as HttpProvider from "financial-agents-gateway/submission/HttpProvider"
import {
  acceptedAt,
  namesNothing,
  type ProviderOperation,
  ProviderReference,
  StatusAnswer,
  SubmissionAnswer
} from "financial-agents-gateway/submission/ProviderAdapter"

export const Payment = Schema.Struct({
  amount: Schema.String,
  currency: Schema.Literal("EUR"),
  creditor_iban: Schema.String
})

const Transfer = Schema.Struct({ id: ProviderReference, idempotency_key: Schema.String, amount: Schema.String })
const Page = Schema.Struct({ transfers: Schema.Array(Transfer), next: Schema.NullOr(Schema.String) })

// The evidence has the own entry alone, and nothing of other payments.
const seen = (transfer: typeof Transfer.Type, { status }: HttpProvider.HttpAnswer) => ({
  names: { reference: transfer.id, operation_id: transfer.idempotency_key },
  evidence: { status, body: transfer }
})

/** The day before the acceptance: the clock of the bank may be slow. */
const from = (operation: ProviderOperation) =>
  DateTime.formatIsoDateUtc(DateTime.subtract(acceptedAt(operation), { days: 1 }))

/** The bank at this address. */
export const at = (baseUrl: string, token: Redacted.Redacted<string>) =>
  HttpProvider.layer({
    baseUrl,
    payloads: { payment: Payment },
    credentials: () => Effect.succeed(HttpProvider.bearer(token)),
    promises: { keys: "for_ever", readByOperationId: "yes" },
    submit: {
      request: (_operation, payment) => ({ path: "/transfers", body: payment }),
      decode: HttpProvider.byStatus({
        201: HttpProvider.onBody(Transfer, (body, answer) => SubmissionAnswer.Succeeded(seen(body, answer)))
      })
    },
    status: {
      needsPayload: true,
      isUnfiltered: true,
      request: (operation) => ({ path: `/transfers?from=${from(operation)}` }),
      decode: (answer, { operation, payload }) =>
        HttpProvider.byStatus({
          200: HttpProvider.onBody(Page, ({ next, transfers }) => {
            const own = transfers.find(({ idempotency_key }) => idempotency_key === operation.id)
            if (own === undefined) {
              return next === null
                ? StatusAnswer.NotFound({ names: namesNothing, evidence: { status: 200, found: 0 } })
                : new HttpProvider.ReadOn({
                  path: `/transfers?from=${from(operation)}&after=${encodeURIComponent(next)}`
                })
            }
            if (own.amount === payload?.amount) return StatusAnswer.Proven({ state: "succeeded", ...seen(own, answer) })
            // A person finds out what the bank has paid.
            const question = `Which amount has the transfer ${own.id}?`
            return StatusAnswer.NotProven({ reason: "unclear", detail: "the amount differs", question })
          }),
          401: HttpProvider.wrongCredentials
        })(answer)
    }
  })
