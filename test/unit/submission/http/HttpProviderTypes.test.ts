/**
 * The types of an adapter follow its declared payloads, and refuse a final "not found" without a deadline. The compiler
 * checks them.
 */
import { describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { expectTypeOf } from "vitest"
import * as HttpProvider from "../../../../src/submission/http/HttpProvider.ts"
import type { HttpProviderOptions } from "../../../../src/submission/http/HttpProviderOptions.ts"
import {
  namesNothing,
  NotSent,
  StatusAnswer,
  SubmissionAnswer
} from "../../../../src/submission/providers/ProviderAdapter.ts"

const Payment = Schema.Struct({ amount: Schema.BigIntFromString, iban: Schema.String })
const Refund = Schema.Struct({ payment: Schema.String })

const answers = {
  decode: HttpProvider.byStatus({
    200: HttpProvider.onBody(
      Schema.Struct({ ok: Schema.Boolean }),
      (_, answer) => SubmissionAnswer.Succeeded({ names: namesNothing, evidence: HttpProvider.evidenceOf(answer) })
    ),
    401: HttpProvider.wrongCredentials,
    418: HttpProvider.onBody(Schema.Json, () => Effect.fail(new NotSent({ reason: "a teapot" }))),
    429: HttpProvider.refusedForNow
  })
}
const common = {
  baseUrl: "https://bank.example",
  status: {
    request: () => ({ path: "/" }),
    decode: () => Effect.succeed(StatusAnswer.NotProven({ reason: "unclear", detail: "" }))
  }
}
const submit = { ...answers, request: () => ({ path: "/", body: {} }) }

describe("The payload of a request", () => {
  it("is any JSON if the adapter declares none", () => {
    HttpProvider.make({
      ...common,
      submit: {
        ...answers,
        request: (operation, payload, type) => {
          expectTypeOf(payload).toEqualTypeOf<Schema.Json>()
          expectTypeOf(type).toEqualTypeOf<string>()
          return { path: `/${operation.id}`, body: payload }
        }
      }
    })
  })

  it("is the decoded payload if the adapter declares one", () => {
    HttpProvider.layer({
      ...common,
      payloads: { payment: Payment },
      submit: {
        ...answers,
        request: (_, payload) => {
          expectTypeOf(payload).toEqualTypeOf<typeof Payment.Type>()
          return { path: "/", body: { amount: String(payload.amount) } }
        }
      }
    })
  })

  it("is selected by the type if the adapter declares several", () => {
    HttpProvider.make({
      ...common,
      payloads: { payment: Payment, refund: Refund },
      submit: {
        ...answers,
        request: (_, payload, type) => {
          expectTypeOf(type).toEqualTypeOf<"payment" | "refund">()
          switch (type) {
            case "payment":
              return { path: "/payments", body: { iban: payload.iban } }
            case "refund":
              return { path: `/payments/${payload.payment}/refunds`, body: {} }
          }
        }
      }
    })
  })

  it("must become JSON", () => {
    HttpProvider.make({
      ...common,
      payloads: { payment: Payment },
      // @ts-expect-error the amount is a bigint
      submit: { ...answers, request: (_, payload) => ({ path: "/", body: payload }) }
    })
  })
})

describe("A final \"not found\"", () => {
  const notFoundIsFinalAfter = "1 minute"

  it("requires a deadline that the provider knows", () => {
    expectTypeOf({ ...common, submit, notFoundIsFinalAfter, sendBeforeHeader: "Send-Before" } as const)
      .toExtend<HttpProviderOptions>()
    expectTypeOf({ ...common, submit, notFoundIsFinalAfter, sendsDeadline: true } as const)
      .toExtend<HttpProviderOptions>()
    // @ts-expect-error no deadline
    HttpProvider.make({ ...common, submit, notFoundIsFinalAfter })
    // @ts-expect-error the adapter says that it sends none
    HttpProvider.make({ ...common, submit, notFoundIsFinalAfter, sendsDeadline: false })
  })

  it("is optional with a deadline", () => {
    HttpProvider.make({ ...common, submit, sendBeforeHeader: "Send-Before" })
    HttpProvider.make({ ...common, submit, sendsDeadline: true })
  })
})
