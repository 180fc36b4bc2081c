/** The adapter for Increase gives each documented answer its meaning, and refuses settings that cannot be right. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Duration, Effect, Exit, Option, Redacted, type Schema } from "effect"
import * as Increase from "../../../src/banks/Increase.ts"
import { OperationType } from "../../../src/domain/Operation.ts"
import { payloadDecoders } from "../../../src/domain/PayloadSchemas.ts"
import * as ProviderHttpClient from "../../../src/node/http/ProviderHttpClient.ts"
import { NotSent, ProviderReference } from "../../../src/submission/providers/ProviderAdapter.ts"
import * as ProviderContract from "../../../src/testing/ProviderContract.ts"
import { answering, nowhere, refusalOf, saidOf, startAdapter } from "../../fixtures/banks/BankClient.ts"
import { operationOf } from "../../fixtures/submission/HttpProviderServer.ts"

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

/** The adapter of a bank that answers each request like this. */
const startWith = ({ body, status }: { readonly status: number; readonly body: Schema.JsonObject }) =>
  startAdapter(adapterAt(nowhere), answering(() => Response.json(body, { status })))

/** The adapter of a bank that must get no request. */
const startUnasked = startAdapter(
  adapterAt(nowhere),
  answering(() => {
    throw new Error("something was sent")
  })
)

/** What the adapter says if the bank answers each request like this. */
const saidTo = Effect.fnUntraced(function*(answer: Parameters<typeof startWith>[0]) {
  const { readStatus, submit } = yield* startWith(answer)
  const submitted = yield* saidOf(submit(operation("ach_transfer"), ach))
  return { submitted, read: yield* readStatus(operation("ach_transfer"), null) }
})

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

/** An ACH transfer, and its body on the wire, by hand. */
const sentAch = (cents: number, changes: Partial<typeof ach> = {}) => {
  const payload = { ...ach, ...changes }
  const { account_id, account_number, routing_number, statement_descriptor } = payload
  return sent(
    "/ach_transfers",
    payload,
    `{"account_id":"${account_id}","amount":${cents},"routing_number":"${routing_number}",`
      + `"account_number":"${account_number}","statement_descriptor":"${statement_descriptor}"}`
  )
}

const sentAccount = (cents: number, changes: Partial<typeof account> = {}) => {
  const payload = { ...account, ...changes }
  const { account_id, description, destination_account_id } = payload
  return sent(
    "/account_transfers",
    payload,
    `{"account_id":"${account_id}","amount":${cents},"destination_account_id":"${destination_account_id}",`
      + `"description":"${description}"}`
  )
}

const answers = (type: string, { paid, waiting }: { readonly waiting: string; readonly paid: string }) => {
  const subject = (status: string) => ({ id, reference }: ProviderContract.AnswerSubject) =>
    transfer({ id: reference, idempotency_key: id, type, status })
  const is = (status: string) => (about: ProviderContract.AnswerSubject) => ({
    status: 200,
    body: subject(status)(about)
  })
  const lists = (status: string) => (about: ProviderContract.AnswerSubject) => ({
    status: 200,
    body: list(subject(status)(about))
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
    expects: [sentAch(115), sentAch(11_500, { amount: "115" }), sentAch(115, { account_number: "123" })],
    invalidPayloads: [
      ...["0.00", "-1.00", "1.155", "100000000.00"].map((amount) => ({ ...ach, amount })),
      { ...ach, currency: "EUR" },
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
      sentAccount(1250),
      sentAccount(115, { amount: "1.15" }),
      sentAccount(1250, { destination_account_id: "account_2" })
    ],
    invalidPayloads: [{ ...account, currency: "EUR" }],
    answers: answers("account_transfer", { waiting: "pending_approval", paid: "complete" })
  }]
]

describe.concurrent.each(kits)("The contract of providers, for the type %s", (_, options) => {
  for (const { name, run } of ProviderContract.cases(options)) it(name, () => Effect.runPromise(run))
})

describe("The adapter for Increase", () => {
  const tags = { submitted: "Acknowledged", succeeded: "Succeeded", failed: "Rejected" } as const

  it.effect.each([
    ["pending_approval", "submitted"],
    ["pending_transfer_session_confirmation", "submitted"],
    ["pending_reviewing", "submitted"],
    ["pending_submission", "submitted"],
    ["requires_attention", "submitted"],
    ["submitted", "succeeded"],
    ["complete", "succeeded"],
    ["canceled", "failed transfer_canceled"],
    ["rejected", "failed transfer_rejected"],
    ["returned", "failed transfer_returned"],
    ["returned for no_account", "failed account_unknown"],
    ["returned for invalid_account_number_structure", "failed account_unknown"],
    ["returned for account_closed", "failed account_closed"],
    ["returned for credit_entry_refused_by_receiver", "failed payee_refused"],
    ["returned for payment_stopped", "failed transfer_returned"]
  ])("reads a transfer that is %s as %s, in both kinds of answers", ([is, meaning]) =>
    Effect.gen(function*() {
      const [status, return_reason_code] = is!.split(" for ")
      const [state, code] = meaning!.split(" ") as [keyof typeof tags, string?]
      const body = transfer({
        idempotency_key: "k",
        status: status!,
        ...return_reason_code && { return: { return_reason_code, created_at: "2026-05-03T00:00:00Z" } }
      })
      const expected = {
        names: { reference: ProviderReference.make("ach_transfer_1"), operation_id: "k" },
        ...code && { code }
      }
      assert.deepInclude((yield* saidTo({ status: 200, body })).submitted, { _tag: tags[state], ...expected })
      const { read } = yield* saidTo({ status: 200, body: list(body) })
      assert.deepInclude(read, { _tag: "Proven", state, ...expected })
    }))

  const ownFault = { _tag: "NotSent", isRefused: true, isLocal: true }

  it.effect.each<[answer: { status: number; body: Schema.JsonObject }, submitted: object, read: object]>([
    [problem("invalid_parameters_error", 400, { errors: [] }), { _tag: "Rejected", code: "invalid_details" }, {}],
    [problem("malformed_request_error", 400), ownFault, {}],
    [problem("invalid_api_key_error", 401), ownFault, {}],
    [problem("environment_mismatch_error", 403), ownFault, { detail: "the bank answered environment_mismatch_error" }],
    [problem("insufficient_permissions_error", 403), ownFault, {}],
    [problem("private_feature_error", 403), ownFault, {}],
    [problem("object_not_found_error", 404), { _tag: "Rejected", code: "account_unknown" }, { _tag: "NotFound" }],
    [problem("api_method_not_found_error", 404), ownFault, {}],
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

  const refused = "isPermitted does not permit the operation"
  const ofOperation = { isLocal: true, isOfOperation: true }

  it.effect.each<[account_id: string, submitted: object, reason: string]>([
    ["account_of_owner_2", { isPermanent: true, isForbidden: true }, refused],
    ["account_of_a_broken_store", ofOperation, "no answer of isPermitted: StoreDown"],
    ["account_of_an_empty_option", ofOperation, refused]
  ])(
    "sends neither a transfer nor a fence from %s to an owner without it",
    ([account_id, submitted, reason]) =>
      Effect.gen(function*() {
        const { fence, submit } = yield* startUnasked
        for (const [type, payload] of [["ach_transfer", ach], ["account_transfer", account]] as const) {
          const one = operation(type)
          const failure = yield* Effect.flip(submit(one, { ...payload, account_id }))
          assert.deepStrictEqual({ ...failure }, { ...new NotSent({ ...submitted, reason }) })
          const send = yield* fence!(one, { ...payload, account_id })
          assert.deepInclude(yield* send!, { _tag: "NotProven", reason: "unclear", detail: reason })
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
      const { promises } = yield* startUnasked
      assert.deepStrictEqual(promises!.reversibleFor, { byType: { ach_transfer: "60 days" } })
    }))

  it.effect("does not start without the question who may pay", () =>
    Effect.gen(function*() {
      const adapter = Increase.at({ baseUrl: "https://api.increase.com", apiKey } as never)
      const refusal = yield* refusalOf(startAdapter(adapter, ProviderHttpClient.layer()))
      assert.include(refusal, "mayPayFrom of Increase must be")
    }))

  it.effect("takes a list of two transfers as no evidence", () =>
    Effect.gen(function*() {
      const one = transfer({ idempotency_key: "k", status: "submitted" })
      assert.deepInclude((yield* saidTo({ status: 200, body: list(one, one) })).read, {
        _tag: "NotProven",
        reason: "unclear"
      })
    }))

  it.effect.each([["complete"], ["canceled"]])(
    "has no result in another currency (%s): a person asks the bank",
    ([status]) =>
      Effect.gen(function*() {
        const about = operation("account_transfer")
        const body = transfer({ type: "account_transfer", status: status!, currency: "JPY", idempotency_key: about.id })
        const { submit } = yield* startWith({ status: 200, body })
        assert.strictEqual((yield* submit(about, account))._tag, "Acknowledged")
        const { readStatus } = yield* startWith({ status: 200, body: list(body) })
        assert.deepInclude(yield* readStatus(about, null), {
          _tag: "NotProven",
          question: "Transfer ach_transfer_1 is not in US dollars. What did it move?"
        })
      })
  )

  it.effect("keeps as evidence of a refusal what counts, and no account number that the bank repeats", () =>
    Effect.gen(function*() {
      const errors = [{ loc: ["account_number"], msg: "987654321 is not valid", input: "987654321" }]
      const { submit } = yield* startWith(problem("invalid_parameters_error", 400, { errors }))
      assert.deepInclude(yield* submit(operation("ach_transfer"), ach), {
        _tag: "Rejected",
        evidence: { status: 400, body: { type: "invalid_parameters_error", title: "Why.", status: 400 } }
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
      const refusal = yield* refusalOf(startAdapter(Increase.layer({ mayPayFrom }), ProviderHttpClient.layer())).pipe(
        Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(env))
      )
      assert.match(refusal, reason)
    }))
})
