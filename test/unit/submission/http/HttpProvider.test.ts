/**
 * The HTTP adapter sends a submission at most once, and reports exactly how it ended. The tests run it against a raw
 * socket server, over each HTTP client.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Exit, Fiber, Redacted, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as ProviderHttpClient from "../../../../src/node/http/ProviderHttpClient.ts"
import { byStatus, onBody } from "../../../../src/submission/http/HttpDecoding.ts"
import * as HttpProvider from "../../../../src/submission/http/HttpProvider.ts"
import { encodeWithoutBody } from "../../../../src/submission/http/HttpRequest.ts"
import { namesNothing, SubmissionAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import {
  answering,
  clients,
  inMillis,
  operationOf,
  optionsFor,
  rawServer,
  response,
  submitTo,
  succeeded
} from "../../../fixtures/submission/HttpProviderServer.ts"
import { until } from "../../../fixtures/until.ts"

const at = (iso: string) => DateTime.makeUnsafe(iso) as DateTime.Utc

const headerOf = (head: string, name: string) => new RegExp(`^${name}: (.*)$`, "im").exec(head)?.[1]

/** A server whose first request is under way until it is released: another one waits for the only connection. */
const occupied = Effect.gen(function*() {
  let release = () => {}
  const server = yield* rawServer({
    onRequest: (socket, _, index) => {
      if (index > 1) socket.write(response(200, succeeded))
      else release = () => void socket.write(response(200, succeeded))
    }
  })
  const first = yield* Effect.forkChild(submitTo(optionsFor(server.url)))
  yield* until(() => server.requests.length === 1)
  return { first, release: () => release(), server }
})

describe("A submission", () => {
  for (const [name, client] of clients) {
    it.live(`is sent once over ${name}, with the operation's id as its key`, () =>
      Effect.gen(function*() {
        const server = yield* rawServer(answering(response(200, succeeded)))
        const operation = operationOf({ send_before: at("2999-01-01T00:00:00.5Z") })
        const answer = yield* submitTo(
          optionsFor(`${server.url}/v2/`, {
            promises: { lateRequests: { header: "Send-Before" } },
            credentials: ({ provider_connection_id }) =>
              Effect.succeed({ Authorization: Redacted.make(`Bearer ${provider_connection_id}`) })
          }),
          operation,
          { amount: "1.00", note: "ünïcode" }
        )
        assert.deepInclude(answer, {
          _tag: "Succeeded",
          evidence: { status: 200, body: JSON.parse(succeeded) }
        })
        const [request, ...others] = server.requests
        assert.deepStrictEqual(others, [])
        assert.isTrue(request!.head.startsWith("POST /v2/mutations HTTP/1.1\r\n"), request!.head)
        assert.strictEqual(headerOf(request!.head, "idempotency-key"), operation.id)
        assert.strictEqual(headerOf(request!.head, "send-before"), "2999-01-01T00:00:00.500Z")
        assert.strictEqual(headerOf(request!.head, "authorization"), `Bearer ${operation.provider_connection_id}`)
        assert.strictEqual(headerOf(request!.head, "content-type"), "application/json")
        assert.isUndefined(headerOf(request!.head, "traceparent"))
        assert.deepStrictEqual(JSON.parse(request!.body), {
          type: "payment",
          payload: { amount: "1.00", note: "ünïcode" }
        })
      }).pipe(Effect.provide(client())))

    for (
      const [moment, behaviour] of [
        ["before the answer", {}],
        ["during the body", answering(response(200, succeeded).slice(0, -1))]
      ] as const
    ) {
      it.live(`that is interrupted ${moment} over ${name} is aborted: the connection closes`, () =>
        Effect.gen(function*() {
          const server = yield* rawServer(behaviour)
          const fiber = yield* Effect.forkChild(submitTo(optionsFor(server.url)))
          yield* until(() => server.requests.length === 1)
          yield* Fiber.interrupt(fiber)
          assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
          yield* until(() => server.open() === 0)
        }).pipe(Effect.provide(client())))
    }

    it.live(`whose deadline passes over ${name} is aborted`, () =>
      Effect.gen(function*() {
        const server = yield* rawServer({})
        // Long enough for the request to leave, also on a busy machine.
        const { _tag } = yield* submitTo(optionsFor(server.url, { deadlines: { headers: 500 } }))
        assert.strictEqual(_tag, "Uncertain")
        yield* until(() => server.open() === 0)
      }).pipe(Effect.provide(client())))

    it.live(`over ${name} accepts 204 and a declared empty body`, () =>
      Effect.gen(function*() {
        const empty = onBody(Schema.Null, () =>
          SubmissionAnswer.Succeeded({ names: namesNothing, evidence: { empty: true } }))
        const submit = { ...optionsFor("http://x").submit, decode: byStatus({ 201: empty, 204: empty }) }
        for (
          const bytes of ["HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"]
        ) {
          const server = yield* rawServer(answering(bytes))
          const { _tag, reason } = yield* submitTo(optionsFor(server.url, { submit }))
          assert.strictEqual(_tag, "Succeeded", reason)
        }
        // Nothing declares that this response is complete.
        const cut = yield* rawServer({
          onRequest: (socket) =>
            socket.end("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n\r\n")
        })
        assert.strictEqual((yield* submitTo(optionsFor(cut.url, { submit })))._tag, "Uncertain")
      }).pipe(Effect.provide(client())))

    it.live(`over ${name} closes the connection when it need not read the rest of the response`, () =>
      Effect.gen(function*() {
        const server = yield* rawServer(answering(response(302, "<html>", { "Content-Length": "1000000" })))
        assert.strictEqual((yield* submitTo(optionsFor(server.url)))._tag, "Uncertain")
        yield* until(() => server.open() === 0)
      }).pipe(Effect.provide(client())))

    it.live(`over ${name} is never sent twice when the provider closes connections, nor falsely reported as not sent`, () =>
      Effect.gen(function*() {
        // The provider closes or resets its kept connections shortly after each response. Some requests are written in
        // that moment.
        const server = yield* rawServer({
          onRequest: (socket, _, index) => {
            socket.write(response(200, succeeded, { Connection: "keep-alive" }))
            const end = () => void (index % 2 === 0 ? socket.end() : socket.resetAndDestroy())
            if (index % 4 === 0) setImmediate(end)
            else setTimeout(end, index % 3)
          }
        })
        const options = optionsFor(server.url)
        const outcomes = yield* Effect.forEach(
          Array.from({ length: rounds(150, 400) }, () => operationOf()),
          (operation) =>
            Effect.map(submitTo(options, operation), ({ _tag }) => [operation.id as string, _tag] as const),
          {
            concurrency: 4
          }
        )
        const received = new Map<string, number>()
        for (const { key } of server.requests) received.set(key!, (received.get(key!) ?? 0) + 1)
        assert.deepStrictEqual([...received].filter(([, count]) => count > 1), [])
        for (const [id, outcome] of outcomes) {
          if (outcome === "NotSent") assert.isFalse(received.has(id))
          if (outcome === "Succeeded") assert.isTrue(received.has(id))
        }
        assert.isAbove(outcomes.filter(([, outcome]) => outcome === "Succeeded").length, 100)
      }).pipe(Effect.provide(client())))
  }

  it.live("is signed as it leaves, with the credentials of its payload, and its answer is decoded with its bytes", () =>
    Effect.gen(function*() {
      const body = `{"reference": "ref-1",  "status": "succeeded"}`
      const server = yield* rawServer(answering(response(200, body)))
      const options = optionsFor(server.url)
      const answer = yield* submitTo(
        {
          ...options,
          credentials: (_, payload) => Effect.succeed({ authorization: Redacted.make(JSON.stringify(payload)) }),
          submit: {
            ...options.submit,
            sign: (bytes) => Effect.succeed({ "x-signature": Buffer.from(bytes).toString("base64") }),
            decode: ({ bytes }) =>
              Effect.succeed(
                SubmissionAnswer.Succeeded({ names: namesNothing, evidence: Buffer.from(bytes).toString() })
              )
          }
        },
        operationOf(),
        { note: "ünïcode" }
      )
      assert.deepInclude(answer, { _tag: "Succeeded", evidence: body })
      const [request] = server.requests
      assert.strictEqual(Buffer.from(headerOf(request!.head, "x-signature")!, "base64").toString(), request!.body)
      assert.match(headerOf(request!.head, "authorization")!, /^\{"note":/)
    }).pipe(Effect.provide(ProviderHttpClient.layer())))

  it.live("may be a form, signed as it leaves, with basic credentials", () =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering(response(200, succeeded)))
      const options = optionsFor(server.url)
      yield* submitTo({
        ...options,
        credentials: () => Effect.succeed(HttpProvider.basic("", Redacted.make("kéy"))),
        submit: {
          ...options.submit,
          request: ({ id }) => ({
            path: "/transfers",
            body: HttpProvider.form({ amount: "1250", "note[of]": "a&b ü", id })
          }),
          sign: (bytes) => Effect.succeed({ "x-signature": Buffer.from(bytes).toString("base64") })
        }
      })
      const [request] = server.requests
      assert.strictEqual(request!.body, `amount=1250&note%5Bof%5D=a%26b+%C3%BC&id=${request!.key}`)
      assert.strictEqual(headerOf(request!.head, "content-type"), "application/x-www-form-urlencoded")
      assert.strictEqual(Buffer.from(headerOf(request!.head, "x-signature")!, "base64").toString(), request!.body)
      assert.strictEqual(headerOf(request!.head, "authorization"), "Basic OmvDqXk=")
      assert.throws(() => HttpProvider.basic("a:b", Redacted.make("key")), /must have no colon/)
      assert.notInclude(JSON.stringify(HttpProvider.form({ iban: "DE1" })), "DE1")
    }).pipe(Effect.provide(ProviderHttpClient.layer())))

  it.live("is not sent when send_before has passed", () =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering(response(200, succeeded)))
      const operation = operationOf({ send_before: yield* DateTime.now })
      const answer = yield* submitTo(optionsFor(server.url), operation)
      assert.deepStrictEqual(answer, { _tag: "NotSent", reason: "send_before has passed" })
      assert.strictEqual(server.connections(), 0)
    }).pipe(Effect.provide(ProviderHttpClient.layer())))

  it.effect("checks send_before after it has its credentials", () =>
    Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(
        submitTo(
          optionsFor("http://127.0.0.1:1", { credentials: () => Effect.as(Effect.sleep(1000), {}) }),
          operationOf({ send_before: yield* inMillis(1000) })
        )
      )
      yield* TestClock.adjust(1000)
      assert.deepStrictEqual(yield* Fiber.join(fiber), { _tag: "NotSent", reason: "send_before has passed" })
    }).pipe(Effect.provide(ProviderHttpClient.layer())))

  it.live("is not sent when send_before passes while it waits for a connection", () =>
    Effect.gen(function*() {
      const { first, release, server } = yield* occupied
      const operation = operationOf({ send_before: yield* inMillis(200) })
      const second = yield* Effect.forkChild(submitTo(optionsFor(server.url), operation))
      yield* until(() => Date.now() > DateTime.toEpochMillis(operation.send_before!))
      release()
      assert.strictEqual((yield* Fiber.join(first))._tag, "Succeeded")
      assert.deepStrictEqual(yield* Fiber.join(second), {
        _tag: "NotSent",
        reason: "send_before passed before the first byte left"
      })
      assert.lengthOf(server.requests, 1)
      assert.notInclude(server.received(), operation.id)
    }).pipe(Effect.provide(ProviderHttpClient.layer({ connections: 1 }))))

  it.live("that still waits for a connection at its deadline is reported as not sent, and is never sent", () =>
    Effect.gen(function*() {
      const { first, release, server } = yield* occupied
      const operation = operationOf()
      const second = yield* submitTo(optionsFor(server.url, { deadlines: { headers: 30 } }), operation)
      assert.strictEqual(second._tag, "NotSent", second.reason)
      release()
      assert.strictEqual((yield* Fiber.join(first))._tag, "Succeeded")
      // The next request on the connection arrives; this one does not.
      assert.strictEqual((yield* submitTo(optionsFor(server.url)))._tag, "Succeeded")
      assert.lengthOf(server.requests, 2)
      assert.notInclude(server.received(), operation.id)
    }).pipe(Effect.provide(ProviderHttpClient.layer({ connections: 1 }))))
})

describe("A status read", () => {
  it.effect("asks caches for the present state", () =>
    Effect.gen(function*() {
      const read = yield* encodeWithoutBody("https://api.bank.example", { path: "/transfers/1" }, {})
      assert.strictEqual(read.headers["cache-control"], "no-cache")
    }))
})
