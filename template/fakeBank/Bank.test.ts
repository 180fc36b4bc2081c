/** The adapter never takes an open outcome for a result. The tests run it against a fake bank that misbehaves. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { ProviderConnectionId, ResourceOwner } from "financial-agents-gateway/domain/Grant"
import { OperationId } from "financial-agents-gateway/domain/Operation"
import * as ProviderHttpClient from "financial-agents-gateway/node/ProviderHttpClient"
import { ProviderAdapter, type ProviderOperation } from "financial-agents-gateway/submission/ProviderAdapter"
import { randomUUID } from "node:crypto"
import * as Bank from "../src/Bank.ts"
import type { Transfer } from "../src/Transfer.ts"
import { bookings, startFakeBank } from "./FakeBank.ts"

const transfer: Transfer = { amount: "12.50", currency: "EUR", iban: "DE89370400440532013000" }

const newOperation = (): ProviderOperation => ({
  id: OperationId.make("019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"),
  type: "transfer",
  resource_owner: ResourceOwner.make("alice"),
  provider_connection_id: ProviderConnectionId.make(randomUUID()),
  send_before: null
})

/** A new bank, and the adapter for it. */
const scene = Effect.gen(function*() {
  const bank = yield* startFakeBank({ port: 0, apiKey: "key" })
  const adapter = Bank.layer(bank.url, Redacted.make("key")).pipe(Layer.provide(ProviderHttpClient.layer()))
  return { bank, adapter: Context.get(yield* Layer.build(adapter), ProviderAdapter), operation: newOperation() }
})

describe("The adapter of the bank", () => {
  it.live("books a transfer once, also if the request is repeated", () =>
    Effect.gen(function*() {
      const { adapter, bank, operation } = yield* scene
      const first = yield* adapter.submit(operation, transfer)
      assert.strictEqual(first._tag, "Succeeded")
      assert.strictEqual(first.names.operation_id, operation.id)
      assert.deepStrictEqual((yield* adapter.submit(operation, transfer)).names, first.names)
      assert.strictEqual(yield* bookings(bank), 1)
    }))

  it.live("passes a refusal on, with a code that the adapter declares", () =>
    Effect.gen(function*() {
      const { adapter, operation } = yield* scene
      const answer = yield* adapter.submit(operation, { ...transfer, amount: "10000.01" })
      assert.deepInclude(answer, { _tag: "Rejected", code: "limit_exceeded" })
    }))

  it.live("reports a wrong key as a local failure, so that transfers wait for the right one", () =>
    Effect.gen(function*() {
      const { adapter, bank, operation } = yield* scene
      yield* bank.setFaults({ unauthorized: { rate: 1 } })
      const failure = yield* Effect.flip(adapter.submit(operation, transfer))
      assert.deepInclude(failure, { _tag: "NotSent", isRefused: true, isLocal: true })
      assert.strictEqual(yield* bookings(bank), 0)
      const status = yield* adapter.readStatus(operation, null)
      assert.deepInclude(status, { _tag: "NotProven", detail: "the provider refused the credentials: status 401" })
    }))

  it.live("reports a lost answer as uncertain, and a status read proves the booking", () =>
    Effect.gen(function*() {
      const { adapter, bank, operation } = yield* scene
      yield* bank.setFaults({ drop_response: { rate: 1, on: "submission" } })
      assert.strictEqual((yield* Effect.flip(adapter.submit(operation, transfer)))._tag, "Uncertain")
      assert.deepInclude(yield* adapter.readStatus(operation, null), { _tag: "Proven", state: "succeeded" })
    }))

  it.live("reports a lost request as uncertain, and a status read proves nothing", () =>
    Effect.gen(function*() {
      const { adapter, bank, operation } = yield* scene
      yield* bank.setFaults({ lose: { rate: 1 } })
      assert.strictEqual((yield* Effect.flip(adapter.submit(operation, transfer)))._tag, "Uncertain")
      assert.deepInclude(yield* adapter.readStatus(operation, null), { _tag: "NotFound" })
    }))
})
