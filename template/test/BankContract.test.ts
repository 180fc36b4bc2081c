/**
 * The adapter keeps the rules of the port for banks, also against hostile answers. The conformance kit has the cases; this
 * file says what the bank documents.
 */
import { describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as ProviderContract from "financial-agents-gateway/testing/ProviderContract"
import * as Bank from "../src/Bank.ts"
import { transferTerms } from "../src/Transfer.ts"

const booked = ({ id, reference }: ProviderContract.AnswerSubject) => ({ id: reference, key: id, status: "booked" })

/** The request of a transfer, as the bank documents it. */
const transferred = (body: string) => ({ id, sendBefore }: ProviderContract.Submitted) => ({
  path: "/transfers",
  headers: {
    authorization: "Bearer key",
    "content-type": "application/json",
    "idempotency-key": id,
    "send-before": sendBefore.toISOString()
  },
  body
})

const cases = ProviderContract.cases({
  adapter: (baseUrl) => Bank.layer(baseUrl, Redacted.make("key")),
  operation: { type: "transfer" },
  terms: transferTerms,
  // Each payload but the last differs from the first in one member of the terms. Yen have no decimals.
  expects: [
    {
      payload: { amount: "12.50", currency: "EUR", iban: "DE89370400440532013000" },
      request: transferred("{\"amount\":\"12.50\",\"currency\":\"EUR\",\"iban\":\"DE89370400440532013000\"}")
    },
    {
      payload: { amount: "1.15", currency: "EUR", iban: "DE89370400440532013000" },
      request: transferred("{\"amount\":\"1.15\",\"currency\":\"EUR\",\"iban\":\"DE89370400440532013000\"}")
    },
    {
      payload: { amount: "12.50", currency: "GBP", iban: "DE89370400440532013000" },
      request: transferred("{\"amount\":\"12.50\",\"currency\":\"GBP\",\"iban\":\"DE89370400440532013000\"}")
    },
    {
      payload: { amount: "12.50", currency: "EUR", iban: "FR1420041010050500013M02606" },
      request: transferred("{\"amount\":\"12.50\",\"currency\":\"EUR\",\"iban\":\"FR1420041010050500013M02606\"}")
    },
    {
      payload: { amount: "750", currency: "JPY", iban: "DE89370400440532013000" },
      request: transferred("{\"amount\":\"750\",\"currency\":\"JPY\",\"iban\":\"DE89370400440532013000\"}")
    }
  ],
  invalidPayloads: [{ amount: "12,50", currency: "EUR", iban: "DE89370400440532013000" }],
  answers: {
    submission: {
      succeeded: (subject) => ({ status: 201, body: booked(subject) }),
      refused: {
        answer: ({ id }) => ({ status: 422, body: { key: id, code: "limit_exceeded", message: "Too much." } }),
        code: "limit_exceeded"
      }
    },
    status: {
      succeeded: (subject) => ({ status: 200, body: booked(subject) }),
      notFound: ({ id }) => ({ status: 404, body: { key: id, code: "not_found" } })
    }
  }
})

describe("The contract of providers", () => {
  for (const { name, run } of cases) it(name, () => Effect.runPromise(run))
})
