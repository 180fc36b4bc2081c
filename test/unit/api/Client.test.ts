/**
 * The Effect client repeats and follows by the engine of the client on `fetch`, in Effect's time, with typed operations and typed
 * problems, and a financial request that it repeats stays the same request. A scripted gateway answers.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Clock, Effect, Exit, Fiber, Layer, Redacted, Schema, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { HttpApi, HttpApiGroup } from "effect/http-api"
import { GatewayClient, makeClient, submit } from "../../../src/api/Client.ts"
import { mutationEndpoint } from "../../../src/api/MutationEndpoint.ts"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import { OperationId } from "../../../src/domain/Operation.ts"
import {
  baseUrl,
  cut,
  id,
  json,
  lost,
  operation,
  page,
  problem,
  read,
  type Reply,
  silent,
  text,
  unchanged
} from "../../fixtures/client/ScriptedGateway.ts"
import { settle } from "../../fixtures/client/ScriptedScene.ts"
import { scriptedGateway, whileTimePasses } from "../../fixtures/client/TestTime.ts"

const operationId = OperationId.make(id)

/** A client whose requests the replies answer in order. The last reply repeats. */
const clientWith = Effect.fnUntraced(function*(replies: ReadonlyArray<Reply>) {
  const gateway = yield* scriptedGateway(replies)
  const layer = GatewayClient.layer({ baseUrl, accessToken: Redacted.make("secret-token") })
  const transport = FetchHttpClient.layer.pipe(Layer.provideMerge(Layer.succeed(FetchHttpClient.Fetch, gateway.fetch)))
  const context = yield* Layer.build(Layer.provideMerge(layer, transport))
  const client = yield* Effect.provide(GatewayClient, context)
  return { ...gateway, client, context }
})

/** The answer as a page of another origin gets it, or a client behind a CDN. */
const withoutCommonHeaders = ({ after, response }: Reply): Reply => ({
  after,
  response: () => {
    const answer = response!()
    for (const name of ["vary", "cache-control", "location"]) answer.headers.delete(name)
    return answer
  }
})

const accepted = read(operation("accepted"))
const final = read(operation("succeeded", 2))

describe("The Effect client", () => {
  it.effect("follows an operation until it is final, in each run of the stream anew", () =>
    Effect.gen(function*() {
      const waited = unchanged(operation("accepted"), { applied: true, after: 50 })
      const { client, context, received } = yield* clientWith([accepted, waited, final, accepted, final])
      const states = Stream.runCollect(Stream.map(client.follow(operationId), ({ state }) => state))
      for (const requests of [3, 2]) {
        const before = received.length
        assert.deepStrictEqual(yield* whileTimePasses(Effect.provide(states, context)), ["accepted", "succeeded"])
        assert.lengthOf(received, before + requests)
      }
      assert.deepStrictEqual(
        received.slice(0, 3).map(({ at, ifNoneMatch, prefer }) => [at, ifNoneMatch, prefer]),
        [[0, null, null], [0, "\"1\"", "wait=50"], [50, "\"1\"", "wait=50"]]
      )
    }))

  it.effect("repeats reads after each kind of failure that may pass, when Retry-After has passed", () =>
    Effect.gen(function*() {
      const busy = problem("service_unavailable", { "retry-after": "7" })
      const { client, context, received } = yield* clientWith([lost, busy, cut(), cut(503), text(502, "Bad"), final])
      const settled = yield* whileTimePasses(Effect.provide(client.settled(operationId), context))
      assert.strictEqual(settled.state, "succeeded")
      assert.lengthOf(received, 6)
      assert.isAtLeast(received[2]!.at - received[1]!.at, 7)
      const bound = yield* clientWith([lost, json({ operations: [operation("failed")], next_page_token: null })])
      const found = bound.client.findByKey(IdempotencyKey.make("rent"))
      assert.strictEqual((yield* whileTimePasses(Effect.provide(found, bound.context)))?.state, "failed")
    }))

  it.effect("reads the change feed page by page, with its filters, and fails with the class of the problem", () =>
    Effect.gen(function*() {
      const { client, context, received } = yield* clientWith([
        page([operation("accepted")], "b", { has_more: true }),
        page([], "c"),
        problem("grant_revoked")
      ])
      const tokens: Array<string> = []
      const changes = client.changes("a", { page_size: 5 }).pipe(
        Stream.runForEach(({ next_change_token }) => Effect.sync(() => void tokens.push(next_change_token))),
        Effect.catchTag("Unauthorized", ({ code }) => Effect.succeed(code))
      )
      assert.strictEqual(yield* whileTimePasses(Effect.provide(changes, context)), "grant_revoked")
      assert.deepStrictEqual(tokens, ["b", "c"])
      assert.deepStrictEqual(
        received.map(({ target }) => [...new URL(target, baseUrl).searchParams].toSorted()),
        ["a", "b", "c"].map((after) => [["after", after], ["page_size", "5"]])
      )
    }))

  it.effect("lists all operations, page by page", () =>
    Effect.gen(function*() {
      const listed = (state: Parameters<typeof operation>[0], next_page_token: string | null) =>
        json({ operations: [operation(state)], next_page_token })
      const { client, context, received } = yield* clientWith([listed("accepted", "b"), listed("failed", null)])
      const states = Stream.runCollect(Stream.map(client.listAll({ page_size: 1 }), ({ state }) => state))
      assert.deepStrictEqual(yield* whileTimePasses(Effect.provide(states, context)), ["accepted", "failed"])
      assert.deepStrictEqual(
        received.map(({ target }) => [...new URL(target, baseUrl).searchParams].toSorted()),
        [[["page_size", "1"]], [["page_size", "1"], ["page_token", "b"]]]
      )
    }))

  it.effect.each(["", "gateway", "localhost:3000"])("refuses the base URL %j", (url) =>
    Effect.gen(function*() {
      const layer = GatewayClient.layer({ baseUrl: url, accessToken: Redacted.make("token") })
      assert.isTrue(Exit.hasDies(yield* Effect.exit(Effect.provide(Layer.build(layer), FetchHttpClient.layer))))
    }))

  it.effect("reads answers whose Vary and Cache-Control a browser or a CDN withholds", () =>
    Effect.gen(function*() {
      const replies = [
        read(operation("accepted")),
        json({ operations: [], next_page_token: null }),
        json({ limits: [] })
      ]
      const { client, context } = yield* clientWith([...replies, page([], "b")].map(withoutCommonHeaders))
      const changes = Stream.runHead(client.changes())
      yield* whileTimePasses(
        Effect.provide(Effect.all([client.get(operationId), client.list(), client.limits, changes]), context)
      )
    }))

  it.effect("sends `get` once", () =>
    Effect.gen(function*() {
      const { client, context, received } = yield* clientWith([lost])
      const error = yield* Effect.flip(Effect.provide(client.get(operationId), context))
      assert.strictEqual(error._tag, "HttpClientError")
      assert.lengthOf(received, 1)
    }))

  it.effect("leaves no request when a call or a stream is interrupted", () =>
    Effect.gen(function*() {
      const { client, context, running } = yield* clientWith([silent])
      for (const call of [client.settled(operationId), Stream.runDrain(client.changes())]) {
        const fiber = yield* Effect.forkChild(Effect.provide(call, context))
        yield* Effect.promise(settle)
        assert.strictEqual(running(), 1)
        yield* Fiber.interrupt(fiber)
        yield* Effect.promise(settle)
        assert.strictEqual(running(), 0)
      }
    }))
})

class Payments extends HttpApi.make("payments").add(
  HttpApiGroup.make("payments").add(
    mutationEndpoint("pay", "/v1/payments", { payload: Schema.Struct({ amount: Schema.String }) })
  )
) {}

const location = `${baseUrl}/v1/operations/${id}`

const taken: Reply = {
  after: 0,
  response: () =>
    new Response(JSON.stringify(operation("accepted")), {
      status: 202,
      headers: { "content-type": "application/json", location }
    })
}

/** A payment by a client whose requests the replies answer, and what it has sent so far. */
const paying = Effect.fnUntraced(function*(replies: ReadonlyArray<Reply>, token = "token") {
  const { fetch, received } = yield* scriptedGateway(replies)
  const client = yield* Effect.provide(
    makeClient(Payments, { baseUrl, accessToken: Redacted.make(token) }),
    FetchHttpClient.layer
  )
  const pay = client.payments.pay({ headers: { "idempotency-key": "rent" }, payload: { amount: "1.00" } }).pipe(
    Effect.provideService(FetchHttpClient.Fetch, fetch)
  )
  const sent = () =>
    received.map(({ authorization, body, key, target }) => [
      target,
      authorization,
      key,
      new TextDecoder().decode(body as Uint8Array)
    ])
  return { pay, sent }
})

const payment = ["/v1/payments", "Bearer token", "rent", "{\"amount\":\"1.00\"}"]

describe("A financial request of the client", () => {
  it.effect("carries the token and the key, and gives the operation with its URL", () =>
    Effect.gen(function*() {
      const { pay, sent } = yield* paying([taken])
      const { body, headers } = yield* pay
      assert.deepStrictEqual([body.id, headers.location], [operationId, location])
      assert.deepStrictEqual(sent(), [payment])
    }))

  it.effect("is accepted, also if Location does not reach the client", () =>
    Effect.gen(function*() {
      const { pay } = yield* paying([withoutCommonHeaders(taken)])
      assert.strictEqual((yield* pay).body.id, operationId)
    }))

  it.effect("is not sent with a token that no header can carry: the platform would quote it", () =>
    Effect.gen(function*() {
      for (const token of ["secret\ntoken", "secret-tökén", ""]) {
        const { pay, sent } = yield* paying([taken], token)
        const cause = yield* Effect.flip(Effect.sandbox(submit(pay)))
        assert.include(Cause.pretty(cause), "the access token is empty, or has characters that no header can carry")
        assert.notInclude(Cause.pretty(cause), "secret")
        assert.lengthOf(sent(), 0)
      }
    }))

  it.effect("is repeated as the same request after a retryable problem, when Retry-After has passed", () =>
    Effect.gen(function*() {
      const { pay, sent } = yield* paying([problem("service_unavailable", { "retry-after": "7" }), taken])
      assert.strictEqual((yield* whileTimePasses(submit(pay))).body.id, operationId)
      assert.isAtLeast(yield* Clock.currentTimeMillis, 7000)
      assert.deepStrictEqual(sent(), [payment, payment])
    }))

  it.effect("fails with the last problem when the time for repetitions is over", () =>
    Effect.gen(function*() {
      const { pay, sent } = yield* paying([problem("rate_limited", { "retry-after": "10" })])
      const error = yield* whileTimePasses(Effect.flip(submit(pay, { within: "25 seconds" })))
      assert.strictEqual(error._tag, "TooManyRequests")
      assert.isAtMost(yield* Clock.currentTimeMillis, 25_000)
      assert.lengthOf(sent(), 3)
    }))
})
