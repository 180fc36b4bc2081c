/** The gateway's adapter for the bank (docs/providers.md). It promises what the bank documents. */
import { Effect, Redacted, Schema } from "effect"
import * as Http from "../../../src/submission/http/HttpProvider.ts"
import * as Provider from "../../../src/submission/providers/ProviderAdapter.ts"
import { settings } from "./shared.ts"

const text = Schema.String
const Payment = Schema.Struct({ reference: text, amount: text, currency: Schema.Literal("EUR"), payee: text })
const Booked = Schema.Struct({ id: Provider.ProviderReference, end_to_end_id: text, status: text })
const Paid = Schema.Struct({ ...Booked.fields, status: Schema.Literal("paid") })
const PaidOne = Schema.Struct({ payments: Schema.Tuple([Paid]) })
const None = Schema.Struct({ payments: Schema.Tuple([]) })

const seen = (payment: typeof Booked.Type, answer: Http.HttpAnswer) => ({
  names: { reference: payment.id, operation_id: payment.end_to_end_id },
  evidence: Http.evidenceOf(answer)
})
const paid = Http.onBody(Paid, (payment, answer) => Provider.SubmissionAnswer.Succeeded(seen(payment, answer)))
const holderOf = (payment: typeof Booked.Type, answer: Http.HttpAnswer) =>
  payment.status === "paid"
    ? Http.KeyHolder.First(seen(payment, answer))
    : Http.KeyHolder.Own({ ...seen(payment, answer), isCancelled: payment.status === "cancelled" })
const provenPaid = ({ payments: [payment] }: typeof PaidOne.Type, answer: Http.HttpAnswer) =>
  Provider.StatusAnswer.Proven({ state: "succeeded", ...seen(payment, answer) })
const notFound = (_: unknown, answer: Http.HttpAnswer) =>
  Provider.StatusAnswer.NotFound({ names: Provider.namesNothing, evidence: Http.evidenceOf(answer) })

export const adapter = Http.layer({
  baseUrl: settings.bankUrl,
  account: settings.bankUrl,
  payloads: { payment: Payment },
  credentials: () => Effect.succeed({ authorization: Redacted.make(`Bearer ${settings.bankToken}`) }),
  promises: {
    keys: settings.bankKeys === "forever" ? "for_ever" : settings.bankKeys === "forgets" ? "24 hours" : "none",
    readByOperationId: "yes"
  },
  submit: {
    request: ({ id }, payment) => ({ path: "/payments", body: { ...payment, end_to_end_id: id } }),
    decode: Http.byStatus({
      200: paid,
      201: paid,
      429: Http.refusedForNow,
      503: Http.refusedForNow,
      500: () => Effect.fail(new Provider.Uncertain({ reason: "the bank answered 500" }))
    })
  },
  status: {
    request: ({ id }) => ({ path: `/payments?end_to_end_id=${id}` }),
    decode: Http.byStatus({
      200: Http.firstOf(Http.onBody(PaidOne, provenPaid), Http.onBody(None, notFound))
    })
  },
  // An order that waits for a release occupies the key of a lost request, and is cancelled (docs/providers.md, "A fence").
  fence: settings.bankKeys !== "forever" ? undefined : {
    request: ({ id }, payment) => ({ path: "/payments", body: { ...payment, end_to_end_id: id, hold: true } }),
    decode: Http.byStatus({
      200: Http.onBody(Booked, holderOf),
      201: Http.onBody(Booked, holderOf)
    }),
    cancel: (reference) => ({ method: "POST", path: `/payments/${reference}/cancel` })
  }
})
