/**
 * The tool `pay` of the payments example accepts what a person confirmed, once, and nothing else. The tests call it with the
 * official clients of both protocol versions, and with messages that no such client would send. The example runs as a process.
 */
import { assert, describe, layer } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { paymentsWrite } from "../../../examples/payments/Api.ts"
import { operationsRead } from "../../../src/domain/Grant.ts"
import type { OperationId } from "../../../src/domain/Operation.ts"
import { Sandbox } from "../../../src/sandbox/Sandbox.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { OperatorActions } from "../../../src/services/operators/OperatorActions.ts"
import { direct, pay, rent, settled, startPayments } from "../../fixtures/examples/paymentsProcess.ts"
import { issue, PostgresServices } from "../../fixtures/ledger/Ledger.ts"
import {
  callModern,
  elicited,
  type Message,
  messagesOf,
  paidOf,
  payingAgent,
  type Reply,
  send,
  versions
} from "../../fixtures/mcp/PayingAgent.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { urlOf } from "../../fixtures/processes/CommandLine.ts"

/** A bank that executes every payment at once. */
const Bank = Sandbox.layer({
  mix: { succeeded_at_once: 1, succeeded_later: 0, failed_later: 0, rejected: 0, shortest_ms: 50, longest_ms: 100 }
})

const mayPay = { scopes: [operationsRead, paymentsWrite] }

/** The database and the bank of the example, and services to issue grants. */
const world = Effect.gen(function*() {
  const database = yield* createDatabase()
  const bank = yield* Sandbox
  const services = yield* Layer.build(
    PostgresServices.pipe(Layer.provideMerge(Layer.merge(Layer.fresh(layerFor(database)), Platform)))
  )
  const tokenWith = (request: Parameters<typeof issue>[0]) =>
    issue(request).pipe(
      Effect.map(({ access_token, grant }) => ({ token: Redacted.value(access_token), grant })),
      Effect.provide(services)
    )
  const operations = Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql<{ readonly id: string }>`
    SELECT id FROM operations ORDER BY id`).pipe(
      Effect.map((rows) => rows.map(({ id }) => id)),
      Effect.provide(services)
    )
  const shownTerms = (id: string) =>
    OperatorActions.use(({ showTerms }) =>
      showTerms([id as OperationId], { name: "ada", via: "console", reason: null })
    ).pipe(Effect.map((shown) => [...shown.values()]), Effect.provide(OperatorActions.layer), Effect.provide(services))
  return {
    shownTerms,
    environment: { DATABASE_URL: urlOf(database), BANK_URL: bank.url },
    operations,
    revoke: (id: Parameters<Grants["Service"]["revoke"]>[0]) =>
      Effect.provide(Effect.flatMap(Grants, (grants) => grants.revoke(id)), services),
    submitted: Effect.map(bank.record, (receipts) => receipts.map(({ key }) => key as string)),
    tokenWith
  }
})

const running = Effect.gen(function*() {
  const scene = yield* world
  return { ...scene, ...yield* startPayments(scene.environment) }
})

/** The running example, which the tests share. */
class Example extends Context.Service<Example, Effect.Success<typeof running>>()("test/Example") {
  static readonly layer = Layer.provideMerge(Layer.effect(Example, running), Bank)
}

/** The example for a new client: its token, and the operations and submissions that follow. */
const started = Effect.gen(function*() {
  const example = yield* Example
  const { token } = yield* example.tokenWith(mayPay)
  const before = new Set(yield* example.operations)
  const added = Effect.map((ids: ReadonlyArray<string>) => ids.filter((id) => !before.has(id)))
  return { ...example, token, operations: added(example.operations), submitted: added(example.submitted) }
})

const person = (reply: Reply) => () => Promise.resolve(reply)

const call = (run: () => Promise<ReturnType<typeof paidOf>>) => Effect.promise(run)

/** A call of version 2025-11-25 up to the question, with the id of the question. */
const callUntilAsked = async (
  agent: { readonly url: string; readonly token: string },
  args: object,
  signal?: AbortSignal
) => {
  const response = await send(
    agent,
    { id: 7, method: "tools/call", params: { name: "pay", arguments: args } },
    signal === undefined ? {} : { signal }
  )
  const messages = messagesOf(response)
  const { value } = await messages.next() as { readonly value: Message }
  assert.strictEqual(value["method"], "elicitation/create")
  return { id: value["id"], messages }
}

/** Sends an answer to a question, and returns the status. */
const answer = (
  agent: { readonly url: string; readonly token: string },
  message: { readonly id: unknown; readonly [member: string]: unknown }
) =>
  Effect.promise(async () => {
    const response = await send(agent, message)
    await response.text()
    return response.status
  })

/** Reads the stream to its end, and returns the answer to the call. */
const answerIn = async (messages: AsyncGenerator<Message>) => {
  let result: object = {}
  for await (const message of messages) if (message["id"] === 7) result = message["result"] as object
  return paidOf(result)
}

layer(Example.layer, { excludeTestServices: true })((it) => {
  describe.each(versions)("The tool pay for a client of %s", (version) => {
    it.effect("accepts a confirmed payment once: the bank gets one submission, and HTTP finds the same operation", () =>
      Effect.gen(function*() {
        const { operations, shownTerms, submitted, token, url } = yield* started
        const agent = yield* payingAgent(version, { url, token, person: person("confirm") })
        const args = { ...rent, idempotency_key: "rent-of-may" }
        const paid = yield* call(() => agent.pay(args))
        assert.isFalse(paid.isError)
        assert.match(paid.advice, /Do not send the request again and do not use a new key\. Read again in/)
        const { id } = paid.operation!
        const terms = { amount: "750.00", currency: "EUR", payee: rent.creditor.iban }
        assert.deepStrictEqual(yield* shownTerms(id), [terms], "operators see what the person confirmed")
        yield* settled(`${url}/v1/operations/${id}`, token)
        const repeated = yield* call(() => agent.pay(args))
        assert.deepStrictEqual([repeated.operation?.id, repeated.operation?.state], [id, "succeeded"])
        // In the HTTP header the key may stand in quotes, and agents copy it from there.
        const quoted = yield* call(() => agent.pay({ ...rent, idempotency_key: "\"rent-of-may\"" }))
        assert.strictEqual(quoted.operation?.id, id)
        assert.strictEqual((yield* pay({ url, token }, "rent-of-may")).body.id, id)
        assert.deepStrictEqual([yield* operations, yield* submitted], [[id], [id]])
        assert.deepStrictEqual(agent.questions, [
          "Do you want to make this payment?\n\nAmount: \"750.00 EUR\"\nCreditor: \"Landlord\"\n"
          + "IBAN: \"DE89370400440532013000\"\nIdempotency key: \"rent-of-may\""
        ], "a repetition asks nothing")
      }))

    it.effect("accepts nothing that the person declines, dismisses or leaves unconfirmed", () =>
      Effect.gen(function*() {
        const { operations, submitted, token, url } = yield* started
        for (const reply of ["decline", "cancel", "unseen"] as const) {
          const agent = yield* payingAgent(version, { url, token, person: person(reply) })
          const refused = yield* call(() => agent.pay({ ...rent, idempotency_key: reply }))
          assert.deepStrictEqual([refused.isError, refused.problem?.code], [true, "confirmation_declined"])
          assert.match(refused.advice, /This call recorded nothing\. Do not call the tool for it again on your own\./)
          assert.lengthOf(agent.questions, 1)
        }
        assert.deepStrictEqual([yield* operations, yield* submitted], [[], []])
      }))

    it.effect("answers simultaneous calls with one key with one operation", () =>
      Effect.gen(function*() {
        const { operations, submitted, token, url } = yield* started
        const agent = yield* payingAgent(version, { url, token, person: person("confirm") })
        const args = { ...rent, idempotency_key: "rent-of-may" }
        const answers = yield* Effect.promise(() => Promise.all(Array.from({ length: 6 }, () => agent.pay(args))))
        const [id, ...others] = [...new Set(answers.map(({ operation }) => operation!.id))]
        assert.deepStrictEqual(others, [])
        yield* settled(`${url}/v1/operations/${id!}`, token)
        assert.deepStrictEqual([yield* operations, yield* submitted], [[id], [id]])
      }))

    it.effect("refuses another payment under a known key, and a payment that does not fit, without a question", () =>
      Effect.gen(function*() {
        const { operations, token, url } = yield* started
        const { body } = yield* pay({ url, token }, "known")
        const agent = yield* payingAgent(version, { url, token, person: person("confirm") })
        const table = [
          [{ ...rent, amount: "750.01", idempotency_key: "known" }, "idempotency_key_reused"],
          [{ ...rent, amount: "0.00", idempotency_key: "new" }, "invalid_request"],
          [{ ...rent, memo: "x", idempotency_key: "new" }, "invalid_request"],
          [{ ...rent, idempotency_key: "two words" }, "invalid_request"],
          [{ ...rent, idempotency_key: "k".repeat(256) }, "invalid_request"],
          [{ ...rent, idempotency_key: "" }, "invalid_request"],
          [rent, "invalid_request"]
        ] as const
        for (const [args, code] of table) {
          const refused = yield* call(() => agent.pay(args))
          assert.deepStrictEqual([refused.isError, refused.problem?.code], [true, code], JSON.stringify(args))
        }
        const surplus = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`member-${index}`, 1]))
        const { problem } = yield* call(() => agent.pay({ ...rent, ...surplus, idempotency_key: "new" }))
        assert.include(problem?.detail, "There may be more.")
        assert.deepStrictEqual([agent.questions, yield* operations], [[], [body.id]])
      }))

    it.effect("says what remains of a limit, and not to split the amount", () =>
      Effect.gen(function*() {
        const { operations, tokenWith, url } = yield* started
        const max_amount = [{ currency: "EUR", amount: "749.99" }]
        const { token } = yield* tokenWith({
          ...mayPay,
          authorization_details: [{ type: "financial_operations", max_amount }]
        })
        const agent = yield* payingAgent(version, { url, token, person: person("confirm") })
        const refused = yield* call(() => agent.pay({ ...rent, idempotency_key: "rent" }))
        assert.deepStrictEqual([refused.isError, refused.problem?.code], [true, "limit_exceeded"])
        assert.include(refused.problem!.detail, "749.99 EUR")
        assert.match(refused.advice, /not split/)
        assert.deepStrictEqual(yield* operations, [])
      }))

    it.effect("asks no person about a payment that the grant does not permit: 403 without the scope, 401 once revoked", () =>
      Effect.gen(function*() {
        const { operations, revoke, tokenWith, url } = yield* started
        const reader = yield* tokenWith({})
        const revoked = yield* tokenWith(mayPay)
        for (const [{ token }, status] of [[reader, 403], [revoked, 401]] as const) {
          const agent = yield* payingAgent(version, { url, token, person: person("confirm") })
          if (status === 401) yield* revoke(revoked.grant.grant_id)
          const error = yield* Effect.flip(Effect.tryPromise(() => agent.pay({ ...rent, idempotency_key: "rent" })))
          assert.match(
            String(error.cause),
            status === 403 ? /insufficient.scope|403/i : /grant_revoked|401|unauthorized/i
          )
          assert.deepStrictEqual(agent.questions, [])
        }
        assert.deepStrictEqual(yield* operations, [])
      }))

    it.effect("accepts nothing from a client that cannot ask a person", () =>
      Effect.gen(function*() {
        const { operations, token, url } = yield* started
        const agent = yield* payingAgent(version, { url, token, person: null })
        const outcome = yield* Effect.promise(() =>
          agent.pay({ ...rent, idempotency_key: "rent" }).catch((error: unknown) => error as Error)
        )
        if (outcome instanceof Error) assert.match(outcome.message, /capabilit|elicitation/)
        else assert.deepStrictEqual([outcome.isError, outcome.problem?.code], [true, "confirmation_missing"])
        assert.deepStrictEqual(yield* operations, [])
      }))

    it.effect("accepts nothing if the client ends the call while the person thinks", () =>
      Effect.gen(function*() {
        const { operations, token, url } = yield* started
        const asked = Promise.withResolvers<void>()
        const reply = Promise.withResolvers<Reply>()
        const agent = yield* payingAgent(version, {
          url,
          token,
          person: () => {
            asked.resolve()
            return reply.promise
          }
        })
        const ended = new AbortController()
        const outcome = agent.pay({ ...rent, idempotency_key: "rent" }, ended.signal).then(() => "paid", () => "ended")
        yield* Effect.promise(() => asked.promise)
        ended.abort()
        // The next request of the client arrives after the notification of the end.
        yield* Effect.promise(() => agent.tools())
        reply.resolve("confirm")
        assert.strictEqual(yield* Effect.promise(() => outcome), "ended")
        yield* Effect.promise(() => agent.tools())
        yield* Effect.sleep("300 millis")
        assert.deepStrictEqual(yield* operations, [])
      }))

    it.effect("returns the same operation without a question after the process was killed before its answer", () =>
      Effect.gen(function*() {
        const { environment, operations, submitted } = yield* world
        const doomed = yield* startPayments(environment, direct("test/long/examples/paymentsKilledAfterAccept.ts"))
        const args = { ...rent, idempotency_key: "rent-of-may" }
        const first = yield* payingAgent(version, { ...doomed, person: person("confirm") })
        // One of the clients does not notice the end of the process.
        const gone = new AbortController()
        yield* Effect.forkChild(Effect.map(doomed.stop("SIGCONT"), () => gone.abort()), { startImmediately: true })
        const lost = yield* Effect.exit(Effect.tryPromise(() => first.pay(args, gone.signal)))
        assert.strictEqual(lost._tag, "Failure")
        const [id] = yield* operations
        const { url } = yield* startPayments(environment)
        const second = yield* payingAgent(version, { url, token: doomed.token, person: person("decline") })
        const paid = yield* call(() => second.pay(args))
        assert.deepStrictEqual([paid.operation?.id, second.questions], [id, []])
        yield* settled(`${url}/v1/operations/${id!}`, doomed.token)
        assert.deepStrictEqual([yield* operations, yield* submitted], [[id], [id]])
      }).pipe(Effect.provide(Layer.fresh(Bank))))

    it.effect("says that it changes something, and how", () =>
      Effect.gen(function*() {
        const { token, url } = yield* started
        const agent = yield* payingAgent(version, { url, token, person: null })
        const tool = (yield* Effect.promise(() => agent.tools())).find(({ name }) => name === "pay")
        assert.deepInclude(tool?.annotations, {
          readOnlyHint: false,
          destructiveHint: true,
          idempotentHint: true,
          openWorldHint: true
        })
      }))
  })

  describe("A confirmation", () => {
    it.effect("of 2026-07-28 counts for its own payment, key and grant alone", () =>
      Effect.gen(function*() {
        const { operations, token, tokenWith, url } = yield* started
        const args = { ...rent, idempotency_key: "rent" }
        const ask = (bearer: string, asked: object) => Effect.promise(() => callModern({ url, token: bearer }, asked))
        const { inputRequests, requestState, resultType } = yield* ask(token, args)
        assert.strictEqual(resultType, "input_required")
        const confirmed = {
          requestState,
          inputResponses: Object.fromEntries(
            Object.keys(inputRequests as object).map((name) => [name, elicited("confirm")])
          )
        }
        const other = yield* tokenWith(mayPay)
        const table: ReadonlyArray<readonly [token: string, args: object, continuation: object]> = [
          [token, { ...args, amount: "9000.00" }, confirmed],
          [token, { ...args, creditor: { ...rent.creditor, name: "Landlady" } }, confirmed],
          [token, { ...args, idempotency_key: "rent2" }, confirmed],
          [other.token, args, confirmed],
          [token, args, { ...confirmed, requestState: "" }],
          [token, args, { inputResponses: confirmed.inputResponses }]
        ]
        for (const [bearer, sent, continuation] of table) {
          const result = yield* Effect.promise(() => callModern({ url, token: bearer }, sent, continuation))
          assert.strictEqual(paidOf(result).problem?.code, "confirmation_mismatch", JSON.stringify(sent))
        }
        // Without an answer, the state alone asks again.
        assert.strictEqual(
          (yield* Effect.promise(() => callModern({ url, token }, args, { requestState })))["resultType"],
          "input_required"
        )
        assert.deepStrictEqual(yield* operations, [])
        const paid = yield* Effect.promise(() => callModern({ url, token }, args, confirmed))
        assert.deepStrictEqual(yield* operations, [paidOf(paid).operation?.id])
      }))

    it.effect(
      "of 2025-11-25 counts from the grant of the call alone, and may take longer than the deadline",
      () =>
        Effect.gen(function*() {
          const { operations, token, tokenWith, url } = yield* started
          const args = { ...rent, idempotency_key: "rent" }
          const { grant: { client_id, subject }, token: other } = yield* tokenWith(mayPay)
          const { token: sibling } = yield* tokenWith({ ...mayPay, client_id, subject })
          const { id, messages } = yield* Effect.promise(() => callUntilAsked({ url, token }, args))
          const reply = (bearer: string, answered: unknown, how: Reply) =>
            answer({ url, token: bearer }, { id: answered, result: elicited(how) })
          for (const bearer of [other, sibling]) {
            assert.strictEqual(yield* reply(bearer, id, "confirm"), 400)
          }
          assert.strictEqual(yield* reply(token, "1", "confirm"), 400)
          assert.deepStrictEqual(yield* operations, [])
          assert.strictEqual(yield* reply(token, id, "decline"), 202)
          const refused = yield* Effect.promise(() => answerIn(messages))
          assert.strictEqual(refused.problem?.code, "confirmation_declined")
          assert.strictEqual(yield* reply(token, id, "confirm"), 400, "a question has one answer")
          assert.deepStrictEqual(yield* operations, [])

          const late = yield* Effect.promise(() => callUntilAsked({ url, token }, args))
          // The deadline of a request is 1.8 s.
          yield* Effect.sleep("2500 millis")
          assert.strictEqual(yield* reply(token, late.id, "confirm"), 202)
          const paid = yield* Effect.promise(() => answerIn(late.messages))
          assert.deepStrictEqual(yield* operations, [paid.operation?.id])
        })
    )

    it.effect("of 2025-11-25 finds no call after the client closed the stream, or answered with an error or nonsense", () =>
      Effect.gen(function*() {
        const { operations, token, url } = yield* started
        const args = { ...rent, idempotency_key: "rent" }
        const closed = new AbortController()
        const first = yield* Effect.promise(() => callUntilAsked({ url, token }, args, closed.signal))
        closed.abort()
        const confirm = { id: first.id, result: elicited("confirm") }
        yield* Effect.sleep("500 millis")
        assert.strictEqual(yield* answer({ url, token }, confirm), 400)

        const answers: ReadonlyArray<readonly [answer: object, code: string]> = [
          [{ error: { code: -32601, message: "Method not found" } }, "confirmation_missing"],
          [{ result: {} }, "confirmation_missing"],
          [{ result: { action: "accept", content: { confirm: "true" } } }, "confirmation_declined"],
          [{ result: { action: "accept" } }, "confirmation_declined"]
        ]
        for (const [answered, code] of answers) {
          const { id, messages } = yield* Effect.promise(() => callUntilAsked({ url, token }, args))
          yield* answer({ url, token }, { id, ...answered })
          const refused = yield* Effect.promise(() => answerIn(messages))
          assert.strictEqual(refused.problem?.code, code, JSON.stringify(answered))
        }
        assert.deepStrictEqual(yield* operations, [])
      }))
  })
})
