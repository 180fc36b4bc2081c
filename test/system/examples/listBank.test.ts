/**
 * The example of a bank that lists its payments: its adapter follows the contract, and finds a payment whose answer was lost.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { dialect } from "../../../examples/listBank/FakeListBank.ts"
import * as ListBank from "../../../examples/listBank/ListBank.ts"
import { ProviderConnectionId, ResourceOwner } from "../../../src/domain/Grant.ts"
import { OperationId } from "../../../src/domain/Operation.ts"
import * as ProviderHttpClient from "../../../src/node/http/ProviderHttpClient.ts"
import { Sandbox } from "../../../src/sandbox/Sandbox.ts"
import { ProviderAdapter } from "../../../src/submission/providers/ProviderAdapter.ts"
import * as ProviderContract from "../../../src/testing/ProviderContract.ts"

const payment = { amount: "1.15", currency: "EUR", creditor_iban: "DE89370400440532013000" }

const operation = (n: number) => ({
  id: OperationId.make(`019aa4f0-5c00-7b1e-8d2f-00000000000${n}`),
  type: "payment",
  resource_owner: ResourceOwner.make("alice"),
  provider_connection_id: ProviderConnectionId.make("0b0e6ab4-43f6-4a3d-9f43-6a1b8a3f5d3e"),
  send_before: null
})

it.live("a read finds a payment whose answer was lost on a later page, and compares its amount", () =>
  Effect.gen(function*() {
    const bank = Context.get(yield* Layer.build(Sandbox.layer({}, dialect)), Sandbox)
    const layer = ListBank.at(bank.url, Redacted.make("token")).pipe(Layer.provide(ProviderHttpClient.layer()))
    const { readStatus, submit } = Context.get(yield* Layer.build(layer), ProviderAdapter)
    yield* bank.setFaults({ drop_response: { rate: 1, on: "submission" } })
    for (const n of [1, 2, 3]) assert.strictEqual((yield* Effect.flip(submit(operation(n), payment)))._tag, "Uncertain")
    assert.deepInclude(yield* readStatus(operation(1), null, payment), { _tag: "Proven", state: "succeeded" })
    const other = { ...payment, amount: "1.16" }
    assert.deepInclude(yield* readStatus(operation(1), null, other), { detail: "the amount differs" })
    assert.strictEqual((yield* readStatus(operation(4), null, payment))._tag, "NotFound")
  }))

describe("The adapter follows the contract:", () => {
  const transfer = ({ id, reference }: ProviderContract.AnswerSubject) => ({
    id: reference,
    idempotency_key: id,
    amount: "1.15"
  })
  const cases = ProviderContract.cases({
    adapter: (baseUrl) => ListBank.at(baseUrl, Redacted.make("a-token-for-tests")),
    operation: { type: "payment" },
    terms: null,
    expects: [{ payload: payment, request: () => ({ path: "/transfers", body: JSON.stringify(payment) }) }],
    answers: {
      submission: { succeeded: (subject) => ({ status: 201, body: transfer(subject) }) },
      status: {
        isList: true,
        succeeded: (subject) => ({ status: 200, body: { transfers: [transfer(subject)], next: null } }),
        pageBefore: (subject) => ({ status: 200, body: { transfers: [transfer(subject)], next: "page-2" } }),
        notFound: () => ({ status: 200, body: { transfers: [], next: null } })
      }
    }
  })
  for (const { name, run } of cases) it(name, () => Effect.runPromise(run))
})
