/**
 * The adapter for Increase gives each documented answer its meaning, and refuses settings that cannot be right. Simulator and adapter
 * exchange only what the bank's document declares.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, ConfigProvider, Context, Duration, Effect, Exit, Layer, Option, Redacted, type Schema } from "effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import * as Increase from "../../../src/banks/Increase.ts"
import { OperationType } from "../../../src/domain/Operation.ts"
import { payloadDecoders } from "../../../src/domain/PayloadSchemas.ts"
import * as ProviderHttpClient from "../../../src/node/http/ProviderHttpClient.ts"
import { bankDialects } from "../../../src/sandbox/banks/bankDialects.ts"
import { Sandbox, type SandboxOptions } from "../../../src/sandbox/Sandbox.ts"
import { NotSent, ProviderAdapter, ProviderReference } from "../../../src/submission/providers/ProviderAdapter.ts"
import * as ProviderContract from "../../../src/testing/ProviderContract.ts"
import { assertDocumented, watch, withDocument } from "../../fixtures/banks/PublishedDocument.ts"
import { call } from "../../fixtures/sandbox/SandboxHarness.ts"
import { operationOf } from "../../fixtures/submission/HttpProviderServer.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

const apiKey = Redacted.make("a-key-for-tests")
/** The store of the application. */
const mayPayFrom: Increase.IncreaseOptions["mayPayFrom"] = ({ resource_owner }, id) =>
  id === "account_of_a_broken_store"
    ? Effect.fail({ _tag: "StoreDown", id })
    // As an application without type checks answers by mistake.
    : id === "account_of_an_empty_option"
    ? Effect.succeed(Option.none() as never)
    : Effect.succeed(id !== "account_of_owner_2" || resource_owner === "owner-2")
const adapterAt = (baseUrl: string) => Increase.at({ baseUrl, apiKey, mayPayFrom })

const ach: typeof Increase.AchTransfer.Type = {
  account_id: "account_in71c4amph0vgo2qllky",
  amount: "1.15",
  currency: "USD",
  routing_number: "101050001",
  account_number: "987654321",
  statement_descriptor: "Rent of May"
}
const account: typeof Increase.AccountTransfer.Type = {
  account_id: "account_in71c4amph0vgo2qllky",
  amount: "12.50",
  currency: "USD",
  destination_account_id: "account_uf16sut2ct5bevmq3eh",
  description: "Rent of May"
}

const operation = (type: "ach_transfer" | "account_transfer") => operationOf({ type: OperationType.make(type) })

const transfer = (more: Schema.JsonObject): Schema.JsonObject => ({
  id: "ach_transfer_1",
  type: "ach_transfer",
  amount: 115,
  currency: "USD",
  created_at: "2026-05-01T00:00:00Z",
  transaction_id: null,
  ...more
})

const list = (...data: ReadonlyArray<Schema.JsonObject>): Schema.JsonObject => ({ data, next_cursor: null })

const problem = (type: string, status: number, more: Schema.JsonObject = {}) => ({
  status,
  body: { type, title: "Why.", detail: "An account of somewhere.", status, ...more }
})

/** What the adapter says if the bank answers each request like this. */
const saidTo = (answer: { readonly status: number; readonly body: Schema.JsonObject }) => {
  const { body, status } = answer
  const response = () => new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json" } })
  const client = HttpClient.make((request) => Effect.succeed(HttpClientResponse.fromWeb(request, response())))
  return Effect.gen(function*() {
    const context = yield* Layer.build(
      Layer.provide(adapterAt("http://127.0.0.1:1"), Layer.succeed(HttpClient.HttpClient, client))
    )
    const { readStatus, submit } = Context.get(context, ProviderAdapter)
    const submitted = yield* Effect.match(submit(operation("ach_transfer"), ach), {
      onFailure: (failure) => failure,
      onSuccess: (answer) => answer
    })
    return { submitted, read: yield* readStatus(operation("ach_transfer"), null) }
  })
}

const amount = (cents: number) => `"amount":${cents}`

/** The body of an ACH transfer on the wire, by hand. */
const achBody = (payload: typeof ach, cents: number) =>
  `{"account_id":"${payload.account_id}",${amount(cents)},"routing_number":"${payload.routing_number}",`
  + `"account_number":"${payload.account_number}","statement_descriptor":"${payload.statement_descriptor}"}`

const accountBody = (payload: typeof account, cents: number) =>
  `{"account_id":"${payload.account_id}",${amount(cents)},`
  + `"destination_account_id":"${payload.destination_account_id}","description":"${payload.description}"}`

const sent = (path: string, payload: Schema.JsonObject, body: string) => ({
  payload,
  request: ({ id }: ProviderContract.Submitted) => ({
    path,
    headers: {
      "idempotency-key": id,
      authorization: "Bearer a-key-for-tests",
      "content-type": "application/json"
    },
    body
  })
})

const subject = (type: string, status: string) => ({ id, reference }: ProviderContract.AnswerSubject) =>
  transfer({ id: reference, idempotency_key: id, type, status })

const answers = (type: string, { paid, waiting }: { readonly waiting: string; readonly paid: string }) => {
  const is = (status: string) => (about: ProviderContract.AnswerSubject) => ({
    status: 200,
    body: subject(type, status)(about)
  })
  const lists = (status: string) => (about: ProviderContract.AnswerSubject) => ({
    status: 200,
    body: list(subject(type, status)(about))
  })
  return {
    submission: {
      acknowledged: is(waiting),
      succeeded: is(paid),
      refused: { answer: () => problem("invalid_operation_error", 409), code: "not_possible" },
      duplicate: () => problem("idempotency_key_already_used_error", 409, { resource_id: "ach_transfer_9" }),
      unauthorized: () => problem("invalid_api_key_error", 401),
      unavailable: () => problem("rate_limited_error", 429, { retry_after: 2 })
    },
    status: {
      pending: lists(waiting),
      succeeded: lists(paid),
      failed: { answer: lists("canceled"), code: "transfer_canceled" },
      notFound: () => ({ status: 200, body: list() })
    }
  } satisfies ProviderContract.ProviderContractOptions["answers"]
}

const kits: ReadonlyArray<readonly [type: string, options: ProviderContract.ProviderContractOptions]> = [
  ["ach_transfer", {
    adapter: adapterAt,
    operation: { type: "ach_transfer" },
    otherTypes: ["account_transfer"],
    terms: Increase.achTransferTerms,
    expects: [
      sent("/ach_transfers", ach, achBody(ach, 115)),
      sent("/ach_transfers", { ...ach, amount: "115" }, achBody(ach, 11_500)),
      sent(
        "/ach_transfers",
        { ...ach, account_number: "123" },
        achBody({ ...ach, account_number: "123" }, 115)
      )
    ],
    invalidPayloads: [
      { ...ach, currency: "EUR" },
      { ...ach, amount: "0.00" },
      { ...ach, amount: "-1.00" },
      { ...ach, amount: "1.155" },
      { ...ach, amount: "100000000.00" },
      { ...ach, external_account_id: "external_account_1" },
      { ...ach, require_approval: true }
    ],
    answers: answers("ach_transfer", { waiting: "pending_submission", paid: "submitted" })
  }],
  ["account_transfer", {
    adapter: adapterAt,
    operation: { type: "account_transfer" },
    otherTypes: ["ach_transfer"],
    terms: Increase.accountTransferTerms,
    expects: [
      sent("/account_transfers", account, accountBody(account, 1250)),
      sent(
        "/account_transfers",
        { ...account, amount: "1.15" },
        accountBody(account, 115)
      ),
      sent(
        "/account_transfers",
        { ...account, destination_account_id: "account_2" },
        accountBody({ ...account, destination_account_id: "account_2" }, 1250)
      )
    ],
    invalidPayloads: [{ ...account, currency: "EUR" }],
    answers: answers("account_transfer", { waiting: "pending_approval", paid: "complete" })
  }]
]

describe.each(kits)("The contract of providers, for the type %s", (_, options) => {
  for (const { name, run } of ProviderContract.cases(options)) it(name, () => Effect.runPromise(run))
})

describe("The adapter for Increase", () => {
  it.effect.each<[status: string, more: Schema.JsonObject, submitted: object, read: object]>([
    ["pending_approval", {}, { _tag: "Acknowledged" }, { state: "submitted" }],
    ["pending_transfer_session_confirmation", {}, { _tag: "Acknowledged" }, { state: "submitted" }],
    ["pending_reviewing", {}, { _tag: "Acknowledged" }, { state: "submitted" }],
    ["pending_submission", {}, { _tag: "Acknowledged" }, { state: "submitted" }],
    ["requires_attention", {}, { _tag: "Acknowledged" }, { state: "submitted" }],
    ["submitted", {}, { _tag: "Succeeded" }, { state: "succeeded" }],
    ["complete", {}, { _tag: "Succeeded" }, { state: "succeeded" }],
    ["canceled", {}, { _tag: "Rejected", code: "transfer_canceled" }, { state: "failed", code: "transfer_canceled" }],
    ["rejected", {}, { _tag: "Rejected", code: "transfer_rejected" }, { state: "failed", code: "transfer_rejected" }],
    ["returned", {}, { _tag: "Rejected", code: "transfer_returned" }, { state: "failed", code: "transfer_returned" }],
    ...([
      ["no_account", "account_unknown"],
      ["invalid_account_number_structure", "account_unknown"],
      ["account_closed", "account_closed"],
      ["credit_entry_refused_by_receiver", "payee_refused"],
      ["payment_stopped", "transfer_returned"]
    ] as const).map(([return_reason_code, code]): [string, Schema.JsonObject, object, object] => [
      "returned",
      { return: { return_reason_code, created_at: "2026-05-03T00:00:00Z" } },
      { _tag: "Rejected", code },
      { state: "failed", code }
    ])
  ])("gives the state %s its meaning: %j %j", ([status, more, submitted, read]) =>
    Effect.gen(function*() {
      const body = transfer({ idempotency_key: "k", status, ...more })
      const names = { reference: ProviderReference.make("ach_transfer_1"), operation_id: "k" }
      assert.deepInclude((yield* saidTo({ status: 200, body })).submitted, { ...submitted, names })
      assert.deepInclude((yield* saidTo({ status: 200, body: list(body) })).read, { _tag: "Proven", ...read, names })
    }))

  it.effect.each<[answer: { status: number; body: Schema.JsonObject }, submitted: object, read: object]>([
    [problem("invalid_parameters_error", 400, { errors: [] }), { _tag: "Rejected", code: "invalid_details" }, {}],
    [problem("malformed_request_error", 400), { _tag: "NotSent", isRefused: true, isLocal: true }, {}],
    [problem("invalid_api_key_error", 401), { _tag: "NotSent", isRefused: true, isLocal: true }, {}],
    [problem("environment_mismatch_error", 403), { _tag: "NotSent", isRefused: true, isLocal: true }, {
      detail: "the bank answered environment_mismatch_error"
    }],
    [problem("insufficient_permissions_error", 403), { _tag: "NotSent", isRefused: true, isLocal: true }, {}],
    [problem("private_feature_error", 403), { _tag: "NotSent", isRefused: true, isLocal: true }, {}],
    [problem("object_not_found_error", 404), { _tag: "Rejected", code: "account_unknown" }, { _tag: "NotFound" }],
    [problem("api_method_not_found_error", 404), { _tag: "NotSent", isRefused: true, isLocal: true }, {}],
    [problem("invalid_operation_error", 409), { _tag: "Rejected", code: "not_possible" }, {}],
    [problem("idempotency_key_already_used_error", 409, { resource_id: "r" }), { _tag: "Uncertain" }, {}],
    [problem("idempotency_conflict_error", 409), { _tag: "Uncertain" }, {}],
    [problem("idempotency_unprocessable_error", 422), { _tag: "Uncertain" }, {}],
    [problem("rate_limited_error", 429, { retry_after: 2 }), {
      _tag: "NotSent",
      isRefused: true,
      retryAfter: Duration.seconds(2)
    }, { retryAfter: Duration.seconds(2) }],
    [problem("internal_server_error", 500), { _tag: "Uncertain" }, {}],
    // Proxies answer without such a body.
    [{ status: 401, body: {} }, { _tag: "Uncertain", isUndeclared: true }, {}],
    [{ status: 429, body: {} }, { _tag: "Uncertain", isUndeclared: true }, {}],
    [{ status: 503, body: {} }, { _tag: "Uncertain" }, { reason: "unreachable" }],
    // A state that the bank adds later proves nothing.
    [{ status: 200, body: transfer({ idempotency_key: "k", status: "newer" }) }, {
      _tag: "Uncertain",
      isUndeclared: true
    }, {}]
  ])("takes %j as %j", ([answer, submitted, read]) =>
    Effect.gen(function*() {
      const said = yield* saidTo(answer)
      assert.deepInclude(said.submitted, submitted)
      assert.deepInclude(said.read, { _tag: "NotProven", ...read })
      assert.notInclude(JSON.stringify("reason" in said.submitted ? said.submitted.reason : ""), "somewhere")
    }))

  it.effect.each<[account_id: string, submitted: object, detail: string]>([
    [
      "account_of_owner_2",
      { isPermanent: true, isForbidden: true, reason: "isPermitted does not permit the operation" },
      "isPermitted does not permit the operation"
    ],
    [
      "account_of_a_broken_store",
      { isLocal: true, isOfOperation: true, reason: "no answer of isPermitted: StoreDown" },
      "no answer of isPermitted: StoreDown"
    ],
    [
      "account_of_an_empty_option",
      { isLocal: true, isOfOperation: true, reason: "isPermitted does not permit the operation" },
      "isPermitted does not permit the operation"
    ]
  ])(
    "sends neither a transfer nor a fence from %s to an owner without it",
    ([account_id, submitted, detail]) =>
      Effect.gen(function*() {
        const client = HttpClient.make(() => Effect.die("something was sent"))
        const context = yield* Layer.build(
          Layer.provide(adapterAt("http://127.0.0.1:1"), Layer.succeed(HttpClient.HttpClient, client))
        )
        const { fence, submit } = Context.get(context, ProviderAdapter)
        for (const [type, payload] of [["ach_transfer", ach], ["account_transfer", account]] as const) {
          const one = operation(type)
          const failure = yield* Effect.flip(submit(one, { ...payload, account_id }))
          assert.deepStrictEqual({ ...failure }, { ...new NotSent(submitted as never) })
          const send = yield* fence!(one, { ...payload, account_id })
          assert.deepInclude(yield* send!, { _tag: "NotProven", reason: "unclear", detail })
        }
      })
  )

  const { account_number: _number, routing_number: _routing, ...noPayee } = ach
  it.effect.each<[payee: object, isPayee: boolean]>([
    [{ routing_number: "101050001", account_number: "987654321", funding: "savings" }, true],
    [{ external_account_id: "external_1" }, true],
    [{}, false],
    [{ routing_number: "101050001" }, false],
    [{ account_number: "987654321" }, false],
    [{ external_account_id: "external_1", account_number: "987654321" }, false],
    [{ external_account_id: "external_1", routing_number: "101050001" }, false],
    [{ external_account_id: "external_1", funding: "checking" }, false]
  ])("takes the payee %o of an ACH transfer: %s", ([payee, isPayee]) =>
    Effect.gen(function*() {
      const decode = payloadDecoders(Increase.payloads).get("ach_transfer")!
      assert.strictEqual(Exit.isSuccess(yield* Effect.exit(decode({ ...noPayee, ...payee }))), isPayee)
    }))

  it.effect("promises that an ACH transfer may be returned for 60 days, and an account transfer never", () =>
    Effect.gen(function*() {
      const client = Layer.succeed(HttpClient.HttpClient, HttpClient.make(() => Effect.die("something was sent")))
      const context = yield* Layer.build(Layer.provide(adapterAt("http://127.0.0.1:1"), client))
      const { reversibleFor } = Context.get(context, ProviderAdapter).promises!
      assert.deepStrictEqual(reversibleFor, { byType: { ach_transfer: "60 days" } })
    }))

  it.effect("does not start without the question who may pay", () =>
    Effect.gen(function*() {
      const adapter = Increase.at({ baseUrl: "https://api.increase.com", apiKey } as never)
      const exit = yield* Effect.exit(Effect.scoped(Layer.build(Layer.provide(adapter, ProviderHttpClient.layer()))))
      assert.match(Exit.isFailure(exit) ? String(Cause.squash(exit.cause)) : "", /mayPayFrom of Increase must be/)
    }))

  it.effect("takes a list of two transfers as no evidence", () =>
    Effect.gen(function*() {
      const one = transfer({ idempotency_key: "k", status: "submitted" })
      assert.deepInclude((yield* saidTo({ status: 200, body: list(one, one) })).read, {
        _tag: "NotProven",
        reason: "unclear"
      })
    }))

  it.effect("keeps as evidence what counts, and no account number", () =>
    Effect.gen(function*() {
      const body = transfer({ idempotency_key: "k", status: "submitted", account_number: "987654321" })
      const { submitted } = yield* saidTo({ status: 200, body })
      assert.notInclude(JSON.stringify(submitted), "987654321")
      assert.include(JSON.stringify(submitted), "2026-05-01T00:00:00Z")
    }))

  it.effect.each<[env: Readonly<Record<string, string>>, reason: RegExp]>([
    [{ INCREASE_URL: "http://api.increase.com", INCREASE_API_KEY: "key" }, /INCREASE_URL\) must begin with https/],
    [{ INCREASE_URL: "api.increase.com", INCREASE_API_KEY: "key" }, /INCREASE_URL\) must be a URL/],
    [{ INCREASE_URL: "https://api.increase.com", INCREASE_API_KEY: "key\n" }, /INCREASE_API_KEY\) must be set/],
    [{ INCREASE_URL: "https://api.increase.com", INCREASE_API_KEY: "" }, /INCREASE_API_KEY/],
    [{ INCREASE_URL: "https://api.increase.com" }, /INCREASE_API_KEY/]
  ])("does not start with %j", ([env, reason]) =>
    Effect.gen(function*() {
      const exit = yield* Effect.exit(
        Effect.scoped(Layer.build(Layer.provide(Increase.layer({ mayPayFrom }), ProviderHttpClient.layer())))
      ).pipe(Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(env)))
      assert.isTrue(Exit.isFailure(exit))
      assert.match(Exit.isFailure(exit) ? String(Cause.squash(exit.cause)) : "", reason)
    }))
})

const bank = (options: SandboxOptions = {}) =>
  Effect.map(
    Layer.build(Layer.fresh(Sandbox.layer(options, bankDialects["increase"]))),
    (context) => Context.get(context, Sandbox)
  )

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
        const context = yield* Layer.build(Layer.provide(adapterAt(sandbox.url), client))
        const { readStatus, submit } = Context.get(context, ProviderAdapter)
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
