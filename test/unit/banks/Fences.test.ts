/**
 * No order of events at a bank lets a fenced operation pay after it counts as failed: the first request, the requests of fences, their
 * answers, an approval by a person, and a late arrival. The adapters are real, and so is the engine of the simulator, without sockets.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, ConfigProvider, Context, Effect, Exit, Layer, Redacted, type Schema } from "effect"
import { HttpClient, HttpClientError, type HttpClientRequest, HttpClientResponse } from "effect/http"
import * as fc from "fast-check"
import * as Alpaca from "../../../src/banks/Alpaca.ts"
import * as Increase from "../../../src/banks/Increase.ts"
import { OperationType } from "../../../src/domain/Operation.ts"
import { validateAskedAt } from "../../../src/domain/operators/validateAskedAt.ts"
import { headOf } from "../../../src/sandbox/BankRequests.ts"
import { bankDialects } from "../../../src/sandbox/banks/bankDialects.ts"
import { makeMemoryRecord } from "../../../src/sandbox/Record.ts"
import { defaultMix } from "../../../src/sandbox/SandboxOutcome.ts"
import { makeSubmissions } from "../../../src/sandbox/Submissions.ts"
import {
  type FenceAnswer,
  NextRequest,
  ProviderAdapter,
  type ProviderReference,
  SendDeadline
} from "../../../src/submission/providers/ProviderAdapter.ts"
import { operationOf } from "../../fixtures/submission/HttpProviderServer.ts"

const secret = Redacted.make("a-key-for-tests")
const baseUrl = "http://127.0.0.1:1"

const banks = {
  increase: {
    adapter: Increase.at({ baseUrl, apiKey: secret, mayPayFrom: () => Effect.succeed(true) }),
    type: "ach_transfer",
    payload: {
      account_id: "account_own",
      amount: "1.15",
      currency: "USD",
      external_account_id: "external_account_payee",
      statement_descriptor: "sandbox {\"outcome\":\"succeeded\"}"
    }
  },
  alpaca: {
    adapter: Alpaca.at({ baseUrl, keys: { keyId: secret, secretKey: secret }, account: "PA3717PJAYWN", fence: true }),
    type: "order",
    payload: { symbol: "AAPL", qty: "1", side: "buy", type: "market", time_in_force: "day" }
  }
} as const

/** What the network does with a request: its answer arrives, it is lost, or its answer is. `late`: it arrives when `deliver` runs. */
type Way = "arrives" | "lost" | "unanswered" | "late"
const ways: ReadonlyArray<Way> = ["arrives", "lost", "unanswered", "late"]

/** The bank carries out each order that it receives. */
const mix = { ...defaultMix, succeeded_later: 0, failed_later: 0, rejected: 0 }

/** A bank in this process. Requests take the given ways in turn, and then all arrive. */
const bankOf = Effect.fnUntraced(function*(
  name: keyof typeof banks,
  plan: Iterable<Way>,
  later: Readonly<Record<string, string>> = {}
) {
  const { adapter, payload, type } = banks[name]
  const dialect = bankDialects[name]
  const record = makeMemoryRecord()
  const submissions = yield* makeSubmissions({ dialect, seed: "1", mix, record, faults: () => ({}) })
  const coming = plan[Symbol.iterator]()
  const late: Array<Effect.Effect<unknown>> = []

  const receive = (request: HttpClientRequest.HttpClientRequest) =>
    Effect.suspend(() => {
      const { pathname, search } = new URL(request.url)
      const { headers, method } = request
      const head = headOf({ headers, method, url: pathname + search } as never, 0)
      const body = Buffer.from((request.body as unknown as { readonly body?: Uint8Array }).body ?? [])
      const demand = dialect.demandOf(head)!
      switch (demand._tag) {
        case "Submit":
          return submissions.receive({ key: demand.key, head, body })
        case "Cancel":
        case "Approve":
          return submissions.decide(demand, head)
        case "Answered":
          return typeof demand.answer === "object" && demand.answer.status === 200
            ? Effect.succeed({ answer: () => demand.answer } as never)
            : Effect.die(new Error(`the simulator does not know ${method} ${pathname}`))
        default:
          return submissions.read(demand, head)
      }
    }).pipe(Effect.map((reply) => reply.answer()!), Effect.orDie)

  const client = HttpClient.make((request) =>
    Effect.gen(function*() {
      const way = coming.next().value ?? "arrives"
      const arrival = receive(request)
      // Requests of several processes mix.
      yield* Effect.yieldNow
      if (way === "late") late.push(arrival)
      const answer = way === "lost" || way === "late" ? null : yield* arrival
      yield* Effect.yieldNow
      if (answer === null || way === "unanswered") {
        return yield* new HttpClientError.HttpClientError({
          reason: new HttpClientError.TransportError({ request, description: "the connection was reset" })
        })
      }
      const { contentType, status, text } = answer
      const response = new Response(status === 204 ? null : text, { status, headers: { "content-type": contentType } })
      return HttpClientResponse.fromWeb(request, response)
    })
  )
  const context = yield* Layer.build(Layer.provide(adapter, Layer.succeed(HttpClient.HttpClient, client)))
  const { fence, readStatus, submit } = Context.get(context, ProviderAdapter)
  const operation = operationOf({ type: OperationType.make(type) })
  return {
    submit: Effect.exit(submit(operation, payload as Schema.Json)),
    fence: Effect.flatMap(fence!(operation, payload as Schema.Json), (send) => send!),
    /** The fence of a version of the adapter that sends another body. */
    laterFence: Effect.flatMap(fence!(operation, { ...payload, ...later } as Schema.Json), (send) => send!),
    read: readStatus(operation, null),
    deliver: Effect.suspend(() => Effect.forEach(late.splice(0), (arrival) => arrival)),
    /** A person at the bank approves what waits. */
    approve: Effect.gen(function*() {
      for (const { fence, settlement } of yield* Effect.orDie(record.receipts)) {
        if (fence !== true || settlement === undefined) continue
        const head = headOf({ headers: {}, method: "POST", url: "/ach_transfers/1/approve" } as never, 0)
        yield* Effect.orDie(submissions.decide({ _tag: "Approve", reference: settlement.reference }, head))
      }
    }),
    /** A person cancels the order of a fence that waits. A bank that is asked after that knows of no payment, or of a settled one. */
    cancelWaiting: Effect.gen(function*() {
      for (const { fence, settlement } of yield* Effect.orDie(record.receipts)) {
        if (fence !== true || settlement === undefined) continue
        const head = headOf({ headers: {}, method: "POST", url: "/ach_transfers/1/cancel" } as never, 0)
        yield* Effect.orDie(submissions.decide({ _tag: "Cancel", reference: settlement.reference }, head))
      }
    }),
    truth: submissions.truth(operation.id)
  }
})

const events = ["submit", "fence", "two fences", "deliver", "approve"] as const

for (const name of ["increase", "alpaca"] as const) {
  describe(`A fence at ${name}`, () => {
    it.effect("never lets an operation pay that it proved to have failed, and is certain once the network recovers", () =>
      Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(
            fc.array(fc.constantFrom(...events), { maxLength: 6 }),
            fc.array(fc.constantFrom(...ways), { maxLength: 12 }),
            (order, plan) =>
              Effect.runPromise(Effect.scoped(Effect.gen(function*() {
                const bank = yield* bankOf(name, plan)
                const answers: Array<FenceAnswer> = []
                const note = Effect.map(bank.fence, (answer) => void answers.push(answer))
                let isSubmitted = false
                for (const event of order) {
                  if (event === "submit" && !isSubmitted) {
                    isSubmitted = true
                    yield* bank.submit
                  } else if (event === "fence") yield* note
                  else if (event === "two fences") yield* Effect.all([note, note], { concurrency: 2 })
                  else if (event === "deliver") yield* bank.deliver
                  // Nothing approves an order that cannot fill.
                  else if (event === "approve" && name === "increase") yield* bank.approve
                }
                // Requests that are lost for good take the rest of the plan.
                for (let n = 0; n <= plan.length; n++) yield* note
                const last = answers.at(-1)!
                assert.notStrictEqual(last._tag, "NotProven", "the network has recovered")
                // The first request comes at last, and so do all others that are late.
                if (!isSubmitted) yield* bank.submit
                yield* bank.deliver
                yield* bank.approve
                const { status } = yield* bank.truth
                const read = yield* bank.read
                const certain = new Set(answers.map(({ _tag }) => _tag).filter((tag) => tag !== "NotProven"))
                assert.deepStrictEqual([...certain], [last._tag], "certain answers agree")
                if (last._tag === "Occupied") assert.strictEqual(status, "failed")
                else {assert.deepInclude(read, {
                    _tag: "Proven",
                    state: status === "succeeded" ? "succeeded" : "submitted"
                  })}
              })))
          ),
          { numRuns: 300 }
        )
      ))
  })
}

/** Milliseconds between two events, and for which a fence may send. So the next event is while the fence is under way, and no later one is. */
const [step, fenceTime] = [120_000, 150_000]

describe("A person who asks the bank between fences", () => {
  for (const name of ["increase", "alpaca"] as const) {
    it.effect(`at ${name} records by the rules of evidence, and no payment follows a recorded failure`, () =>
      Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(
            fc.array(fc.constantFrom(...events, "ask", "record"), { minLength: 2, maxLength: 8 }),
            fc.array(fc.constantFrom(...ways), { maxLength: 8 }),
            (order, plan) =>
              Effect.runPromise(Effect.scoped(Effect.gen(function*() {
                const bank = yield* bankOf(name, plan)
                let now = 0
                let fencing_until: number | null = null
                let answer: { readonly asked_at: number; readonly state: "failed" | "succeeded" } | null = null
                let recorded: "failed" | "succeeded" | null = null
                let isSubmitted = false
                for (const event of order) {
                  now += step
                  if (event === "submit" && !isSubmitted) {
                    isSubmitted = true
                    yield* bank.submit
                  } else if (event === "fence" || event === "two fences") {
                    fencing_until = now + fenceTime
                    yield* bank.fence
                  } else if (event === "deliver") yield* bank.deliver
                  else if (event === "approve" && name === "increase") yield* bank.approve
                  else if (event === "ask") {
                    // The bank answers for good once nothing is under way to it: no fence may send, and all that was sent has arrived.
                    if (fencing_until === null || fencing_until <= now) {
                      isSubmitted = true
                      yield* bank.deliver
                    }
                    yield* bank.cancelWaiting
                    const { status } = yield* bank.truth
                    answer = { asked_at: now, state: status === "succeeded" ? "succeeded" : "failed" }
                  } else if (event === "record" && answer !== null) {
                    const isFailure = answer.state === "failed"
                    const facts = { created_at: 0, now, sendable_until: null, fencing_until, isFailure }
                    const refusal = validateAskedAt(new Date(answer.asked_at).toISOString(), facts)
                    if (refusal !== null) continue
                    recorded = answer.state
                    // The operation is final: nothing more is sent for it.
                    break
                  }
                }
                yield* bank.deliver
                yield* bank.approve
                if (recorded !== null) {
                  const { status } = yield* bank.truth
                  assert.strictEqual(status === "succeeded" ? "succeeded" : "failed", recorded)
                }
              })))
          ),
          // The order of a fence that began after the question arrives at last, and a person at the bank approves it.
          { numRuns: 500, examples: [[["ask", "fence", "approve", "record"], ["late"]]] }
        )
      ))
  }
})

/** An adapter whose bank answers each request with this object, and the requests. */
const answeredBy = Effect.fnUntraced(function*<E>(
  adapter: Layer.Layer<ProviderAdapter, E, HttpClient.HttpClient>,
  body: object,
  status = 200,
  account_number = "PA3717PJAYWN"
) {
  const seen: Array<string> = []
  const client = HttpClient.make((request) =>
    Effect.sync(() => {
      seen.push(`${request.method} ${new URL(request.url).pathname}`)
      const isAccount = request.url.endsWith("/v2/account")
      const answer = isAccount ? Response.json({ account_number }) : Response.json(body, { status })
      return HttpClientResponse.fromWeb(request, answer)
    })
  )
  const context = yield* Layer.build(
    Layer.fresh(Layer.provide(adapter, Layer.succeed(HttpClient.HttpClient, client)))
  )
  return { ...Context.get(context, ProviderAdapter), seen }
})

describe("A fence", () => {
  it.effect.each(["increase", "alpaca"] as const)(
    "at %s sends nothing once the time to send it has passed",
    (name) =>
      Effect.gen(function*() {
        const { adapter, payload, type } = banks[name]
        const { fence, seen } = yield* answeredBy(adapter, {})
        const send = yield* fence!(operationOf({ type: OperationType.make(type) }), payload as Schema.Json)
        assert.deepInclude(yield* Effect.provideService(send!, SendDeadline, 0), {
          _tag: "NotProven",
          detail: "the time to send the fence has passed"
        })
        assert.isEmpty(seen)
      })
  )
})

describe("A fence whose order has the id . or ..", () => {
  const order = { amount: 115, currency: "USD", created_at: "", transaction_id: null, filled_qty: "0" }
  it.effect.each(
    [
      ["increase", ".", "pending_approval"],
      ["increase", "..", "pending_approval"],
      ["alpaca", ".", "new"],
      ["alpaca", "..", "new"]
    ] as const
  )(
    "at %s cancels nothing for the id %s, whose path is that of another resource",
    ([name, id, status]) =>
      Effect.gen(function*() {
        const { adapter, payload, type } = banks[name]
        const operation = operationOf({ type: OperationType.make(type) })
        const named = { id, client_order_id: operation.id, idempotency_key: operation.id }
        const shape = name === "alpaca"
          ? { qty: "1", side: "buy", type: "limit", time_in_force: "gtc", limit_price: "0.0001" }
          : { type }
        const { fence, seen } = yield* answeredBy(adapter, { ...order, ...named, ...shape, status })
        const send = yield* fence!(operation, payload as Schema.Json)
        assert.deepInclude(yield* send!, {
          _tag: "NotProven",
          detail: "the request cannot be encoded: a segment of the path is . or .., which names another resource"
        })
        assert.deepStrictEqual(seen.filter((request) => !request.startsWith("GET ")), [
          name === "alpaca" ? "POST /v2/orders" : "POST /ach_transfers"
        ])
      })
  )
})

describe("A fence at alpaca", () => {
  const operation = operationOf({ type: OperationType.make("order") })
  const { adapter, payload } = banks.alpaca
  const own = {
    id: "order_1",
    client_order_id: operation.id,
    status: "canceled",
    filled_qty: "0",
    symbol: "AAPL",
    qty: "1",
    side: "buy",
    type: "limit",
    time_in_force: "gtc",
    limit_price: "0.0001"
  }

  it.effect.each<readonly [different: object, fence: FenceAnswer["_tag"], status: string]>([
    [{}, "Occupied", "failed order_canceled"],
    [{ qty: "1.00", limit_price: "0.000100", symbol: "BTC/USD" }, "Occupied", "failed order_canceled"],
    // Alpaca ended it, and does not say that it keeps its id.
    [{ status: "rejected" }, "NotProven", "unclear"],
    [{ status: "expired", filled_qty: "0.00" }, "NotProven", "unclear"],
    [{ status: "new" }, "NotProven", "unclear"],
    [{ status: "filled", filled_qty: "1" }, "NotProven", "unclear"],
    [{ status: "canceled", filled_qty: "0.1" }, "NotProven", "unclear"],
    [{ status: "partially_filled", filled_qty: "0.1" }, "NotProven", "unclear"],
    // Each other shape is that of the first order.
    [{ type: "market", limit_price: null }, "Known", "failed order_canceled"],
    [{ type: "market", limit_price: "" }, "Known", "failed order_canceled"],
    [{ limit_price: "" }, "Known", "failed order_canceled"],
    [{ limit_price: null }, "Known", "failed order_canceled"],
    [{ limit_price: "0" }, "Known", "failed order_canceled"],
    [{ limit_price: "0.00009" }, "Known", "failed order_canceled"],
    [{ limit_price: "0.00010000000000000000000001" }, "Known", "failed order_canceled"],
    [{ qty: "2" }, "Known", "failed order_canceled"],
    [{ qty: null }, "Known", "failed order_canceled"],
    [{ side: "sell" }, "Known", "failed order_canceled"],
    [{ type: "stop_limit" }, "Known", "failed order_canceled"],
    [{ time_in_force: "day" }, "Known", "failed order_canceled"]
  ])(
    "knows its order by the exact shape: with %o it is %s, and a status read %s",
    ([different, tag, status]) =>
      Effect.gen(function*() {
        const { fence, readStatus } = yield* answeredBy(adapter, { ...own, ...different })
        const answer = yield* Effect.flatMap(fence!(operation, payload), (send) => send!)
        assert.strictEqual(answer._tag, tag)
        const read = yield* readStatus(operation, null)
        assert.strictEqual(
          read._tag === "Proven" ? `${read.state} ${"code" in read ? read.code : ""}` : "reason" in read && read.reason,
          status
        )
      })
  )

  it.effect.each<readonly [symbol: string, isStock: boolean]>([
    ["F", true],
    ["AAPL", true],
    ["GOOGL", true],
    ["BRK.B", true],
    ["BTC/USD", false],
    ["BTCUSD", false],
    ["BTCUSDT", false],
    ["ETHBTC", false],
    ["XXUSD", false],
    ["XUSDT", false],
    ["XUSDC", false],
    ["XXBTC", false],
    ["AAPL250620C00100000", false],
    ["ABCDEF", false],
    ["AAPL1", false]
  ])("is for what can only be a stock: %s %s", ([symbol, isStock]) =>
    Effect.gen(function*() {
      const { fence } = yield* answeredBy(adapter, own)
      assert.strictEqual((yield* fence!(operation, { ...payload, symbol })) !== null, isStock)
    }))

  it.effect("is off by default, and refused at the start without an account, or if a function finds the keys", () =>
    Effect.gen(function*() {
      const pair = { keyId: secret, secretKey: secret }
      const keys = () => Effect.succeed(pair)
      assert.isUndefined((yield* answeredBy(Alpaca.at({ baseUrl, keys: pair }), own)).fence)
      assert.isUndefined((yield* answeredBy(Alpaca.at({ baseUrl, keys }), own)).fence)
      for (
        const [options, required] of [[{ keys, account: "PA3717PJAYWN" }, "keys that are no function"], [
          { keys: pair },
          "account"
        ]] as const
      ) {
        const exit = yield* Effect.exit(answeredBy(Alpaca.at({ baseUrl, fence: true, ...options }), own))
        assert.isTrue(Exit.isFailure(exit))
        if (!Exit.isFailure(exit)) continue
        assert.include((Cause.squash(exit.cause) as Error).message, `fence of Alpaca requires ${required}`)
      }
    }))

  it.effect("is sent only once the keys name the account of the settings", () =>
    Effect.gen(function*() {
      const { fence, seen } = yield* answeredBy(adapter, own, 200, "PA0000000000")
      const answer = yield* Effect.flatMap(fence!(operation, payload), (send) => send!)
      assert.deepInclude(answer, { _tag: "NotProven", reason: "unclear" })
      assert.deepStrictEqual(seen, ["GET /v2/account"])
    }))

  it.effect.each(["", " ", "PA1"])("is refused at the start with the account %j", (account) =>
    Effect.gen(function*() {
      const pair = { keyId: secret, secretKey: secret }
      const exit = yield* Effect.exit(answeredBy(Alpaca.at({ baseUrl, keys: pair, account, fence: true }), own))
      const message = Exit.isFailure(exit) ? (Cause.squash(exit.cause) as Error).message : ""
      assert.match(message, /must be its number/)
    }))

  const fromEnvironment = (APCA_FENCE_ACCOUNT?: string) =>
    Effect.provideService(
      answeredBy(Alpaca.layer, own),
      ConfigProvider.ConfigProvider,
      ConfigProvider.fromEnv({
        env: {
          APCA_API_BASE_URL: baseUrl,
          APCA_API_KEY_ID: "key",
          APCA_API_SECRET_KEY: "secret",
          ...APCA_FENCE_ACCOUNT === undefined ? {} : { APCA_FENCE_ACCOUNT }
        }
      })
    )

  it.effect.each([undefined, "", " "])("is off in the environment with %j", (variable) =>
    Effect.gen(function*() {
      assert.isUndefined((yield* fromEnvironment(variable)).fence)
    }))

  it.effect("is on in the environment with the number of its account, which each claim then names", () =>
    Effect.gen(function*() {
      const { account, fence, limit } = yield* fromEnvironment("PA3717PJAYWN")
      assert.isDefined(fence)
      // As Alpaca documents it for each account.
      assert.deepStrictEqual(limit, { requests: 200, interval: "1 minute" })
      assert.strictEqual(account, "127.0.0.1 PA3717PJAYWN")
    }))

  it.effect.each(["true", "off", "1", "false0", "PA-3717"])(
    "is refused at the start with %j, which is no account",
    (variable) =>
      Effect.gen(function*() {
        const exit = yield* Effect.exit(fromEnvironment(variable))
        const message = Exit.isFailure(exit) ? (Cause.squash(exit.cause) as Error).message : ""
        assert.match(message, /APCA_FENCE_ACCOUNT\) must be its number/)
      })
  )
})

describe("A fence at increase", () => {
  /** What the fence says of a bank that answers each request with this transfer, and the requests. */
  const fenceAt = Effect.fnUntraced(function*(key: string | null, permits = 3) {
    let free = permits
    const operation = operationOf({ type: OperationType.make(banks.increase.type) })
    const { fence, seen } = yield* answeredBy(banks.increase.adapter, {
      id: "ach_transfer_1",
      idempotency_key: key ?? operation.id,
      type: "ach_transfer",
      status: "pending_approval",
      amount: 115,
      currency: "USD",
      created_at: "2026-05-01T00:00:00Z",
      transaction_id: null
    })
    const answer = yield* Effect.flatMap(fence!(operation, banks.increase.payload), (send) => send!).pipe(
      Effect.provideService(NextRequest, Effect.sync(() => --free > 0))
    )
    return { answer, seen }
  })

  it.effect("proves nothing with a key whose owner does not have the account that pays", () =>
    Effect.gen(function*() {
      const { fence } = yield* answeredBy(
        banks.increase.adapter,
        { type: "object_not_found_error", status: 404, title: "not found" },
        404
      )
      const operation = operationOf({ type: OperationType.make(banks.increase.type) })
      const answer = yield* Effect.flatMap(fence!(operation, banks.increase.payload), (send) => send!)
      assert.strictEqual(answer._tag, "NotProven")
    }))

  it.effect("cancels no transfer of another operation, which an answer shows", () =>
    Effect.gen(function*() {
      const { answer, seen } = yield* fenceAt("another-key")
      assert.deepStrictEqual(answer, {
        _tag: "Known",
        names: { reference: "ach_transfer_1" as ProviderReference, operation_id: "another-key" }
      })
      assert.deepStrictEqual(seen, ["POST /ach_transfers"])
    }))

  it.effect.each([1, 2])(
    "sends %i requests if the limit has permits for no more, and proves nothing",
    (permits) =>
      Effect.gen(function*() {
        const { answer, seen } = yield* fenceAt(null, permits)
        assert.deepInclude(answer, { _tag: "NotProven", reason: "unclear" })
        assert.lengthOf(seen, permits)
      })
  )

  it.effect("proves nothing while its transfer still waits after the cancellation", () =>
    Effect.gen(function*() {
      const { answer, seen } = yield* fenceAt(null)
      assert.strictEqual(answer._tag, "NotProven")
      assert.deepStrictEqual(seen, [
        "POST /ach_transfers",
        "POST /ach_transfers/ach_transfer_1/cancel",
        "GET /ach_transfers"
      ])
    }))

  for (const first of ["submit", "fence"] as const) {
    it.effect(`with another body than the ${first} that has the key never proves a failure`, () =>
      Effect.gen(function*() {
        const bank = yield* bankOf("increase", ["unanswered"], { statement_descriptor: "as a later version writes it" })
        yield* bank[first]
        const answer = yield* bank.laterFence
        const read = yield* bank.read
        // The bank names the object that has the key. That of a fence waits, and a person may approve it.
        assert.strictEqual(answer._tag, "Known")
        const state = first === "submit" ? "succeeded" : "submitted"
        assert.deepInclude(read, { _tag: "Proven", state })
        assert.deepInclude(answer, {
          names: { reference: read._tag === "Proven" ? read.names.reference : null, operation_id: null }
        })
      }))
  }
})
