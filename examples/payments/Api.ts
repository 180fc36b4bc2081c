/** The contract of the application: its own mutation endpoint, behind the gateway's gate. */
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { mutationEndpoint } from "financial-agents-gateway/api/MutationEndpoint"
import { Scope } from "financial-agents-gateway/domain/Grant"

/** The scope that a payment requires. Reading its operation requires `operations:read`, as always. */
export const paymentsWrite = Scope.make("payments:write")

/** Agents see the description, and clients whose text does not fit see what was expected. */
const text = (pattern: RegExp, expected: string) =>
  Schema.String.check(Schema.isPattern(pattern, { expected })).annotate({ description: expected })

/** Amounts are text, because clients and servers may round JSON numbers. */
export const Payment = Schema.Struct({
  amount: text(/^(?=.*[1-9])(?:0|[1-9][0-9]{0,9})\.[0-9]{2}$/u, "an amount above zero, such as \"12.50\""),
  currency: text(/^[A-Z]{3}$/u, "a currency code of ISO 4217, such as EUR"),
  creditor: Schema.Struct({
    name: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(140)).annotate({
      description: "the name of the creditor"
    }),
    iban: text(/^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$/u, "an IBAN without spaces")
  })
})
export type Payment = typeof Payment.Type

/** What operators decide about: amount, currency and payee. */
export const paymentTerms = ({ amount, creditor, currency }: Payment) => ({ amount, currency, payee: creditor.iban })

/** `POST /v1/payments`. */
export class PaymentsApi extends HttpApi.make("payments").add(
  HttpApiGroup.make("payments").add(mutationEndpoint("pay", "/v1/payments", {
    payload: Payment,
    terms: paymentTerms,
    summary: "Pay",
    description: "Accepts a payment. Requires the scope `payments:write`."
  }))
).annotateMerge(OpenApi.annotations({ title: "Payments", version: "1.0.0" })) {}
