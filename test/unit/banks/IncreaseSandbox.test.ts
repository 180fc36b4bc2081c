/** The simulator of Increase keeps the rules of the bank, and exchanges with the adapter only what the bank's document declares. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { OperationType } from "../../../src/domain/Operation.ts"
import * as ProviderHttpClient from "../../../src/node/http/ProviderHttpClient.ts"
import { bankDialects } from "../../../src/sandbox/banks/bankDialects.ts"
import type { Sandbox, SandboxOptions } from "../../../src/sandbox/Sandbox.ts"
import { increaseAt, startAdapter } from "../../fixtures/banks/BankClient.ts"
import { assertDocumented, watch, withDocument } from "../../fixtures/banks/PublishedDocument.ts"
import { call, start } from "../../fixtures/sandbox/SandboxHarness.ts"
import { operationOf } from "../../fixtures/submission/HttpProviderServer.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

const ach = {
  account_id: "account_in71c4amph0vgo2qllky",
  amount: "1.15",
  currency: "USD",
  routing_number: "101050001",
  account_number: "987654321",
  statement_descriptor: "Rent of May"
}
const account = {
  account_id: "account_in71c4amph0vgo2qllky",
  amount: "12.50",
  currency: "USD",
  destination_account_id: "account_uf16sut2ct5bevmq3eh",
  description: "Rent of May"
}

const operation = (type: "ach_transfer" | "account_transfer") => operationOf({ type: OperationType.make(type) })

const bank = (options: SandboxOptions = {}) => start(options, bankDialects["increase"])

const headers = { authorization: "Bearer key" }

const post = ({ url }: Sandbox["Service"], key: string, body: object, path = "/ach_transfers") =>
  call(`${url}${path}`, { method: "POST", headers: { ...headers, "idempotency-key": key }, body: JSON.stringify(body) })

const told = (instruction: object) => `sandbox ${JSON.stringify(instruction)}`
const wire = (instruction: object) => {
  const { currency: _, ...rest } = ach
  return { ...rest, amount: 115, statement_descriptor: told(instruction) }
}

const listed = ({ url }: Sandbox["Service"], key: string, path = "/ach_transfers") =>
  Effect.map(
    call(`${url}${path}?idempotency_key=${key}`, { headers }),
    ({ json }) => (json as { readonly data: ReadonlyArray<Record<string, unknown>> }).data
  )

describe("The simulator of Increase", () => {
  it.effect("has one transfer for a key, also after a restart, and names it to another body", () =>
    Effect.gen(function*() {
      const record = `${yield* temporaryDirectory}/record.jsonl`
      const body = wire({ outcome: "succeeded", settle_after_ms: 1000 })
      const first = yield* Effect.scoped(Effect.flatMap(bank({ record }), (sandbox) => post(sandbox, "k", body)))
      const sandbox = yield* bank({ record })
      const again = yield* post(sandbox, "k", body)
      assert.deepStrictEqual(again.json, first.json)
      const other = yield* post(sandbox, "k", { ...body, amount: 116 })
      assert.strictEqual(other.status, 409)
      const { id } = first.json as { readonly id: string }
      assert.deepInclude(other.json, { type: "idempotency_key_already_used_error", resource_id: id })
      assert.deepStrictEqual(yield* listed(sandbox, "k", "/account_transfers"), [])
      assert.strictEqual((yield* call(`${sandbox.url}/ach_transfers/${id}`, { headers })).status, 200)
    }))

  it.effect("moves with the clock: pending_submission, submitted, and returned days later", () =>
    Effect.gen(function*() {
      const sandbox = yield* bank()
      const days = 86_400_000
      yield* post(sandbox, "k", wire({ outcome: "succeeded", settle_after_ms: 1000, return_after_ms: 3 * days }))
      const seen = []
      for (const passed of [0, 1000, 3 * days]) {
        yield* TestClock.adjust(passed)
        const [{ return: returned, status, submission } = {}] = yield* listed(sandbox, "k")
        seen.push([status, submission !== null, returned !== null])
      }
      assert.deepStrictEqual(seen, [
        ["pending_submission", false, false],
        ["submitted", true, false],
        ["returned", true, true]
      ])
    }))

  withDocument(
    { file: "increase.openapi.json", query: ["idempotency_key"] },
    "and its adapter exchange what the bank's document declares",
    (document) =>
      Effect.gen(function*() {
        const sandbox = yield* bank()
        const { client, exchanges } = watch(ProviderHttpClient.layer(), () => sandbox.url)
        const { readStatus, submit } = yield* startAdapter(increaseAt(sandbox.url), client)
        for (
          const instruction of [
            { outcome: "succeeded" },
            { outcome: "succeeded", return_after_ms: 0 },
            { outcome: "pending" },
            { outcome: "failed", code: "no_account" },
            { outcome: "failed", code: "canceled" },
            { outcome: "failed", code: "rejected" },
            { outcome: "rejected", code: "account_unknown" },
            { outcome: "rejected", code: "insufficient_funds" }
          ]
        ) {
          for (
            const [type, payload] of [
              ["ach_transfer", { ...ach, statement_descriptor: told(instruction) }],
              ["account_transfer", { ...account, description: told(instruction) }]
            ] as const
          ) {
            const one = operation(type)
            for (let n = 0; n < 2; n++) yield* Effect.ignore(submit(one, payload))
            yield* readStatus(one, null)
          }
        }
        yield* readStatus(operation("ach_transfer"), null)
        yield* Effect.ignore(submit(operation("ach_transfer"), { ...ach, statement_descriptor: "sandbox none" }))
        for (const fault of ["unauthorized", "too_many_requests"]) {
          yield* sandbox.setFaults({ [fault]: { rate: 1, ...fault === "too_many_requests" && { requests: 1 } } })
          for (let n = 0; n < 2; n++) {
            yield* Effect.ignore(submit(operation("account_transfer"), account))
            yield* readStatus(operation("account_transfer"), null)
          }
        }
        assertDocumented(document, exchanges, [
          "GET /account_transfers 200",
          "GET /account_transfers 401",
          "GET /account_transfers 429",
          "GET /ach_transfers 200",
          "POST /account_transfers 200",
          "POST /account_transfers 401",
          "POST /account_transfers 404",
          "POST /account_transfers 409",
          "POST /account_transfers 429",
          "POST /ach_transfers 200",
          "POST /ach_transfers 400",
          "POST /ach_transfers 404",
          "POST /ach_transfers 409"
        ])
      })
  )
})
