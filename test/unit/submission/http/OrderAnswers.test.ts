/** The decoders that adapters declare most: an order, the entry of a list, and errors. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Redacted, Schema } from "effect"
import { Headers } from "effect/http"
import * as HttpProvider from "../../../../src/submission/http/HttpProvider.ts"
import { namesNothing, ProviderReference } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { operationOf } from "../../../fixtures/submission/HttpProviderServer.ts"

const answer = (body: Schema.Json, status = 200, headers = {}): HttpProvider.HttpAnswer => ({
  status,
  body,
  bytes: new Uint8Array(),
  headers: Headers.fromInput(headers)
})

const Order = Schema.Struct({
  id: ProviderReference,
  key: Schema.String,
  state: Schema.Literals(["open", "done", "ended", "replaced", "blocked"]),
  part: Schema.Int,
  by: Schema.optionalKey(ProviderReference)
})

const options: HttpProvider.OrderOptions<typeof Order.Type> = {
  schema: Order,
  names: ({ id, key }) => ({ reference: id, operation_id: key }),
  result: ({ part, state }, earlier) => {
    if (state === "open" || state === "blocked") return { state: "submitted" }
    return state === "done" || [...earlier, { part }].some((one) => one.part > 0)
      ? { state: "succeeded" }
      : { state: "failed", code: "order_ended" }
  },
  unproven: ({ state }) => state === "blocked" ? { reason: "unclear", detail: "it is blocked" } : null,
  replacedBy: ({ by }) => by === undefined ? null : { reference: by, path: `/orders/${by}` }
}
const order = HttpProvider.declareOrder(options)

const body = (more: object = {}) => ({ id: "o1", key: "k", state: "open", part: 0, note: "text of the bank", ...more })
const names = { reference: ProviderReference.make("o1"), operation_id: "k" }
const counted = ({ note: _note, ...members }: ReturnType<typeof body>) => members

const tagOf = <A, E>(decoded: Effect.Effect<A, E>) =>
  Effect.match(decoded, { onFailure: (error) => error as unknown, onSuccess: (value) => value as unknown })

interface Expected {
  readonly _tag: string
  readonly state?: string
  readonly code?: string
  readonly detail?: string
}

describe("An order", () => {
  it.effect.each<[state: string, submitted: Expected, read: Expected]>([
    ["open", { _tag: "Acknowledged" }, { _tag: "Proven", state: "submitted" }],
    ["done", { _tag: "Succeeded" }, { _tag: "Proven", state: "succeeded" }],
    ["ended", { _tag: "Rejected", code: "order_ended" }, { _tag: "Proven", state: "failed", code: "order_ended" }],
    ["blocked", { _tag: "Acknowledged" }, { _tag: "NotProven", detail: "it is blocked" }],
    ["newer", { _tag: "NotUnderstood" }, { _tag: "NotUnderstood" }]
  ])("that is %s has the same names and result in each answer", ([state, submitted, read]) =>
    Effect.gen(function*() {
      const shown = answer(body({ state }))
      const named = (expected: Expected) => expected._tag.startsWith("Not") ? expected : { ...expected, names }
      assert.deepInclude(yield* tagOf(order.submitted(shown)), named(submitted))
      assert.deepInclude(yield* tagOf(order.read(shown)), named(read))
    }))

  it.effect("has only the members of the schema as evidence, unless the adapter keeps the whole body", () =>
    Effect.gen(function*() {
      const shown = answer(body())
      assert.deepInclude(yield* order.submitted(shown), { evidence: { status: 200, body: counted(body()) } })
      const whole = HttpProvider.declareOrder({ ...options, evidence: HttpProvider.evidenceOf })
      assert.deepInclude(yield* whole.submitted(shown), { evidence: { status: 200, body: body() } })
    }))

  it.effect("that was replaced has the names of the first order, and the result of all", () =>
    Effect.gen(function*() {
      const first = body({ state: "replaced", part: 1, by: "o2" })
      const second = body({ id: "o2", key: "another", state: "ended" })
      const next = yield* order.read(answer(first))
      assert.deepInclude(next, { _tag: "ReadOn", path: "/orders/o2" })
      if (next._tag !== "ReadOn") return
      assert.deepInclude(yield* tagOf(next.decode!(answer(second))), {
        _tag: "Proven",
        state: "succeeded",
        names,
        evidence: [first, second].map((one) => ({ status: 200, body: counted(one) }))
      })
      for (const [status, tag] of [[200, "NotUnderstood"], [401, "NotSent"], [404, "NotUnderstood"]] as const) {
        assert.deepInclude(yield* tagOf(next.decode!(answer(body({ id: "o3" }), status))), { _tag: tag })
      }
    }))

  it.effect.each(
    [
      ["first", { _tag: "First", names }],
      ["waiting", { _tag: "Own", names, isCancelled: false }],
      ["cancelled", { _tag: "Own", names, isCancelled: true }]
    ] as const
  )("has the key after a fence as the %s one", ([holder, expected]) =>
    Effect.gen(function*() {
      assert.deepInclude(yield* tagOf(order.holder(() => holder)(answer(body()))), expected)
    }))

  it.effect("of an unclear fence is not understood", () =>
    Effect.gen(function*() {
      const decode = order.holder(() => new HttpProvider.NotUnderstood({ reason: "it was filled" }))
      assert.deepInclude(yield* Effect.flip(decode(answer(body()))), { _tag: "NotUnderstood", reason: "it was filled" })
    }))
})

describe("A list", () => {
  const read = HttpProvider.firstOf(HttpProvider.onlyEntry("data", order.read), HttpProvider.noEntry("data"))

  it.effect.each<[entries: ReadonlyArray<object>, expected: object]>([
    [[body()], { _tag: "Proven", names, evidence: { status: 200, body: counted(body()) } }],
    [[], { _tag: "NotFound", names: namesNothing, evidence: { status: 200, body: { data: [] } } }],
    // Two orders of one key prove nothing.
    [[body(), body({ id: "o2" })], { _tag: "NotUnderstood" }],
    [[{ id: "o1" }], { _tag: "NotUnderstood" }]
  ])("of %j says %j", ([data, expected]) =>
    Effect.gen(function*() {
      assert.deepInclude(yield* tagOf(read(answer({ data } as never))), expected)
    }))
})

describe("An error", () => {
  const Problem = Schema.Struct({ type: Schema.Literals(["closed", "wrong_path"]), key: Schema.String })
  const shown = answer({ type: "closed", key: "k", detail: "an account of a person" }, 422)
  const named = ({ key }: typeof Problem.Type) => ({ reference: null, operation_id: key })
  const reason = ({ type }: typeof Problem.Type) => `the bank answered ${type}`

  it.effect.each<[meaning: string, decode: HttpProvider.Decode<unknown, unknown>, expected: object]>([
    ["a refusal", HttpProvider.refusal(Problem, "account_closed"), {
      _tag: "Rejected",
      code: "account_closed",
      names: namesNothing
    }],
    ["a refusal of its own code", HttpProvider.refusal(Problem, ({ type }) => type, named), {
      _tag: "Rejected",
      code: "closed",
      names: { reference: null, operation_id: "k" }
    }],
    ["not found", HttpProvider.notFound(Problem, named), {
      _tag: "NotFound",
      names: { reference: null, operation_id: "k" }
    }],
    ["repairable", HttpProvider.repairable(Problem, reason), {
      _tag: "NotSent",
      reason: "the bank answered closed",
      isRefused: true,
      isLocal: true
    }],
    ["uncertain", HttpProvider.uncertain(Problem, reason), { _tag: "Uncertain", reason: "the bank answered closed" }]
  ])("is %s only with the declared body", ([, decode, expected]) =>
    Effect.gen(function*() {
      assert.deepInclude(yield* tagOf(decode(shown)), expected)
      assert.deepInclude(yield* tagOf(decode(answer({ type: "page of a proxy" }, 422))), { _tag: "NotUnderstood" })
    }))

  it.effect("says in its body for how long to send nothing, or else in its header", () =>
    Effect.gen(function*() {
      const Limited = Schema.Struct({ wait: Schema.NullOr(Schema.Int) })
      const decode = HttpProvider.refusedFor(Limited, ({ wait }) => wait)
      const header = { "retry-after": "7" }
      for (const [wait, seconds] of [[3, 3], [null, 7]] as const) {
        const refused = yield* tagOf(decode(answer({ wait }, 429, header)))
        assert.deepInclude(refused, { _tag: "NotSent", isRefused: true, retryAfter: Duration.seconds(seconds) })
      }
    }))
})

describe("Credentials", () => {
  const headersOf = ({ key }: { readonly key: string }) => {
    if (key === "") throw new TypeError("the key must be set")
    return HttpProvider.bearer(Redacted.make(key))
  }

  it.effect("of the settings are refused at the start, and are those of the gateway", () =>
    Effect.gen(function*() {
      assert.throws(() => HttpProvider.credentialsFrom({ key: "" }, headersOf), TypeError)
      const { credentials, credentialsOf } = HttpProvider.credentialsFrom({ key: "k" }, headersOf)
      assert.strictEqual(credentialsOf, "gateway")
      assert.strictEqual(Redacted.value((yield* credentials(operationOf()))["authorization"]!), "Bearer k")
    }))

  it.effect("that a function finds are those of the operation", () =>
    Effect.gen(function*() {
      const operation = operationOf()
      const { credentials, credentialsOf } = HttpProvider.credentialsFrom(
        ({ id }: { readonly id: string }) => Effect.succeed({ key: id }),
        headersOf
      )
      assert.strictEqual(credentialsOf, "operation")
      assert.strictEqual(Redacted.value((yield* credentials(operation))["authorization"]!), `Bearer ${operation.id}`)
    }))
})

describe("At the start", () => {
  it.each(["http://bank.example", "https://user@bank.example", "https://bank.example?key=1", "bank"])(
    "the address %s is refused",
    (address) => assert.throws(() => HttpProvider.requireAddress("BANK_URL", address), /^BANK_URL must /)
  )

  it("an address has no trailing slash, and this machine needs no TLS", () => {
    assert.strictEqual(HttpProvider.requireAddress("BANK_URL", "https://bank.example/v1/"), "https://bank.example/v1")
    assert.strictEqual(HttpProvider.requireAddress("BANK_URL", "http://127.0.0.1:1"), "http://127.0.0.1:1")
  })
})
