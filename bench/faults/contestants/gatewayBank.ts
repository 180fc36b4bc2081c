/**
 * The gateway's adapter for the bank, as docs/providers.md describes it. It promises what the bank documents: keys for ever, for 24 hours or
 * none, and a read by the operation's id.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as HttpProvider from "../../../src/submission/http/HttpProvider.ts"
import {
  namesNothing,
  ProviderReference,
  StatusAnswer,
  SubmissionAnswer,
  Uncertain
} from "../../../src/submission/providers/ProviderAdapter.ts"
import { settings } from "./shared.ts"

const Payment = Schema.Struct({
  reference: Schema.String,
  amount: Schema.String,
  currency: Schema.Literal("EUR"),
  payee: Schema.String
})

const Booked = Schema.Struct({ id: ProviderReference, end_to_end_id: Schema.String, status: Schema.String })
const Paid = Schema.Struct({ ...Booked.fields, status: Schema.Literal("paid") })
const one = <A>(payment: Schema.Codec<A, unknown>) => Schema.Struct({ payments: Schema.Tuple([payment]) })
const None = Schema.Struct({ payments: Schema.Tuple([]) })
const seen = (payment: typeof Booked.Type, answer: HttpProvider.HttpAnswer) => ({
  names: { reference: payment.id, operation_id: payment.end_to_end_id },
  evidence: HttpProvider.evidenceOf(answer)
})

const paid = HttpProvider.onBody(Paid, (payment, answer) => SubmissionAnswer.Succeeded(seen(payment, answer)))
const holderOf = (payment: typeof Booked.Type, answer: HttpProvider.HttpAnswer) =>
  payment.status === "paid"
    ? HttpProvider.KeyHolder.First(seen(payment, answer))
    : HttpProvider.KeyHolder.Own({ ...seen(payment, answer), isCancelled: payment.status === "cancelled" })
const decodeFence = HttpProvider.byStatus({
  200: HttpProvider.firstOf(
    HttpProvider.onBody(Booked, holderOf),
    HttpProvider.onBody(one(Booked), ({ payments: [payment] }, answer) => holderOf(payment, answer))
  ),
  201: HttpProvider.onBody(Booked, holderOf)
})

export const adapter = HttpProvider.layer({
  baseUrl: settings.bankUrl,
  payloads: { payment: Payment },
  credentials: () => Effect.succeed({ authorization: Redacted.make(`Bearer ${settings.bankToken}`) }),
  promises: {
    keys: settings.bankKeys === "forever" ? "for_ever" : settings.bankKeys === "forgets" ? "24 hours" : "none",
    readByOperationId: "yes"
  },
  submit: {
    request: ({ id }, payment) => ({ path: "/payments", body: { ...payment, end_to_end_id: id } }),
    decode: HttpProvider.byStatus({
      200: paid,
      201: paid,
      429: HttpProvider.refusedForNow,
      503: HttpProvider.refusedForNow,
      // The bank documents that it says nothing about the payment.
      500: () => Effect.fail(new Uncertain({ reason: "the bank answered 500" }))
    })
  },
  status: {
    request: ({ id }) => ({ path: `/payments?end_to_end_id=${id}` }),
    decode: HttpProvider.byStatus({
      200: HttpProvider.firstOf(
        HttpProvider.onBody(
          one(Paid),
          ({ payments: [payment] }, answer) => StatusAnswer.Proven({ state: "succeeded", ...seen(payment, answer) })
        ),
        HttpProvider.onBody(
          None,
          (_, answer) => StatusAnswer.NotFound({ names: namesNothing, evidence: HttpProvider.evidenceOf(answer) })
        )
      )
    })
  },
  // An order that waits for a release occupies the key of a lost request, and is cancelled (docs/providers.md, "A fence").
  fence: settings.bankKeys !== "forever" ? undefined : {
    request: ({ id }, payment) => ({ path: "/payments", body: { ...payment, end_to_end_id: id, hold: true } }),
    decode: decodeFence,
    cancel: (reference) => ({ method: "POST", path: `/payments/${reference}/cancel` })
  }
})
