/**
 * Failures of an HTTP client prove only what they show, for every wrapping and every answer. The tests check this by
 * property, against raw socket servers that fail at each point, over each HTTP client.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, type Clock, Effect, Layer, ManagedRuntime } from "effect"
import { HttpClientError, HttpClientRequest } from "effect/http"
import * as fc from "fast-check"
import type * as net from "node:net"
import { describeFailure } from "../../../../src/http/RequestFailure.ts"
import { whyNothingSent } from "../../../../src/submission/http/HttpExchange.ts"
import { makeSendDeadline } from "../../../../src/submission/http/SendDeadline.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import {
  answering,
  type Behaviour,
  clients,
  operationOf,
  optionsFor,
  rawServer,
  readFrom,
  response,
  submitTo,
  succeeded
} from "../../../fixtures/submission/HttpProviderServer.ts"

const request = HttpClientRequest.post("https://bank.example/mutations?q=secret")

const coded = (code: string, syscall?: string) =>
  Object.assign(new Error(`${code} secret`), { code }, syscall === undefined ? {} : { syscall })

const transport = (cause: unknown) =>
  Cause.fail(new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request, cause }) }))

const fetchFailed = (cause: unknown) => new TypeError("fetch failed", { cause })

const proofs = [
  coded("ECONNREFUSED", "connect"),
  coded("ETIMEDOUT", "connect"),
  coded("EHOSTUNREACH", "connect"),
  coded("ENETUNREACH", "connect"),
  coded("ENOTFOUND", "getaddrinfo"),
  coded("EAI_AGAIN"),
  coded("UND_ERR_CONNECT_TIMEOUT"),
  coded("DEPTH_ZERO_SELF_SIGNED_CERT"),
  coded("ERR_TLS_CERT_ALTNAME_INVALID")
]

const doubts: ReadonlyArray<unknown> = [
  coded("ECONNRESET", "read"),
  coded("EPIPE", "write"),
  coded("ETIMEDOUT", "read"),
  coded("EHOSTUNREACH", "read"),
  // Where this machine is the cause, too: a route may end, and a firewall begin, after the first byte.
  coded("ENETUNREACH", "write"),
  coded("EPERM", "write"),
  coded("ECONNREFUSED"),
  coded("ECONNRESET"),
  coded("UND_ERR_SOCKET"),
  coded("UND_ERR_HEADERS_TIMEOUT"),
  coded("UND_ERR_BODY_TIMEOUT"),
  coded("UND_ERR_ABORTED"),
  coded("UND_ERR_REQ_RETRY"),
  coded("EPROTO", "write"),
  coded("ERR_SSL_WRONG_VERSION_NUMBER"),
  coded("HPE_INVALID_CONSTANT"),
  new Error("connect ECONNREFUSED"),
  "ECONNREFUSED",
  null,
  undefined,
  {},
  new AggregateError([])
]

const proof: fc.Arbitrary<unknown> = fc.letrec<{ one: unknown }>((tie) => ({
  one: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom(...proofs),
    tie("one").map(fetchFailed),
    fc.array(tie("one"), { minLength: 1, maxLength: 3 }).map((errors) => new AggregateError(errors))
  )
})).one

const doubt: fc.Arbitrary<unknown> = fc.letrec<{ one: unknown }>((tie) => ({
  one: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom(...doubts),
    tie("one").map(fetchFailed),
    // An unknown wrapper may hide further events.
    proof.map((cause) => new Error("wrapped", { cause })),
    fc.tuple(fc.array(proof, { maxLength: 2 }), tie("one")).map(([others, one]) => new AggregateError([...others, one]))
  )
})).one

describe("The failure of a client", () => {
  it("proves that nothing was sent if it happened before the first byte, in any wrapping", () => {
    for (const error of proofs) assert.isNotNull(whyNothingSent(transport(error)), String(error))
    fc.assert(fc.property(proof, (error) => whyNothingSent(transport(error)) !== null))
  })

  it("proves nothing otherwise, even if some addresses refused", () => {
    for (const error of doubts) assert.isNull(whyNothingSent(transport(error)), String(error))
    fc.assert(fc.property(doubt, (error) => whyNothingSent(transport(error)) === null))
  })

  it("proves nothing beside a defect, an interruption or another failure", () => {
    const proven = transport(proofs[0])
    const others: ReadonlyArray<Cause.Cause<unknown>> = [
      Cause.die(proofs[0]),
      Cause.interrupt(1),
      Cause.fail(proofs[0]),
      transport(doubts[0])
    ]
    for (const other of others) {
      assert.isNull(whyNothingSent(other))
      assert.isNull(whyNothingSent(Cause.combine<unknown, unknown>(proven, other)))
    }
    assert.isNull(whyNothingSent(Cause.empty))
  })

  it("is classified even if the error is circular or has getters that throw", () => {
    const circular = fetchFailed(undefined)
    circular.cause = circular
    const trap = {
      get code() {
        throw new Error("trap")
      },
      get syscall() {
        throw new Error("trap")
      }
    }
    for (const error of [circular, trap]) {
      assert.isNull(whyNothingSent(transport(error)))
      assert.isString(describeFailure(transport(error)))
    }
  })

  it("is described only by kind and code", () => {
    fc.assert(
      fc.property(fc.oneof(proof, doubt), (error) => {
        for (const cause of [transport(error), Cause.die(error), Cause.fail(error)]) {
          assert.match(
            describeFailure(cause),
            /^(?:the request failed \((?:TransportError|unexpected error)(?:, [A-Z0-9_]+)?\)|[a-z ]+ \([A-Z0-9_]+\))$/
          )
        }
      })
    )
  })
})

describe("The send deadline of a request", () => {
  const clock = (now: number) => ({ currentTimeMillisUnsafe: () => now }) as Clock.Clock

  it("opens once, for a client that announced its use", () => {
    const deadline = makeSendDeadline(clock(0), null)
    assert.isFalse(deadline.pass())
    deadline.watch()
    assert.isTrue(deadline.pass())
    deadline.watch()
    assert.isFalse(deadline.pass())
    assert.strictEqual(deadline.close(), "gone")
  })

  it("stays closed once it was closed or the deadline has passed", () => {
    const closed = makeSendDeadline(clock(0), null)
    closed.watch()
    assert.strictEqual(closed.close(), "at_rest")
    closed.watch()
    assert.isFalse(closed.pass())
    assert.strictEqual(closed.close(), "at_rest")
    const late = makeSendDeadline(clock(10), 10)
    late.watch()
    assert.isFalse(late.pass())
    assert.isFalse(late.pass())
    assert.strictEqual(late.close(), "late")
    const early = makeSendDeadline(clock(9), 10)
    early.watch()
    assert.isTrue(early.pass())
  })

  it("that no client uses proves nothing", () => {
    assert.strictEqual(makeSendDeadline(clock(0), null).close(), "unwatched")
  })
})

const status = fc.oneof(
  fc.constantFrom(100, 101, 103, 200, 200, 201, 204, 206, 301, 303, 307, 400, 404, 409, 422, 429, 500, 503),
  fc.integer({ min: 0, max: 999 })
)

const body = fc.oneof(
  fc.constantFrom(succeeded, `{"reference":"r","status":"pending"}`, `{"code":"x"}`, "", "null", "[]", succeeded + "}"),
  fc.json(),
  fc.string(),
  fc.nat(succeeded.length).map((end) => succeeded.slice(0, end))
)

const headers = fc.dictionary(
  fc.constantFrom("Content-Type", "Content-Length", "Transfer-Encoding", "Location", "Connection", "Content-Encoding"),
  fc.constantFrom(
    "application/json",
    "application/problem+json; charset=utf-8",
    "text/html",
    "0",
    "12",
    "chunked",
    "close",
    "keep-alive",
    "gzip",
    "/elsewhere"
  ),
  { maxKeys: 3 }
)

interface Case {
  readonly status: number
  readonly body: string
  readonly headers: Record<string, string>
  readonly cut: number
  readonly end: "close" | "reset" | "stall"
  readonly early: boolean
  /** What the provider does instead. */
  readonly instead?: Behaviour
}

const chunked = (chunks: string) =>
  `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`

/** Those that the conformance kit lacks. `test/system/testing` runs the kit over each client. */
const misbehaviours: ReadonlyArray<Behaviour> = [
  { onConnect: (socket) => socket.end() },
  { onBytes: (socket) => socket.end() },
  answering("HTTP/9.9 200 OK\r\n\r\n"),
  answering(chunked("zz\r\n{}\r\n")),
  // Ends between chunks.
  { onRequest: (socket) => socket.end(chunked(`${succeeded.length.toString(16)}\r\n${succeeded}\r\n`)) },
  // An empty body of unknown length.
  { onRequest: (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n") },
  // No UTF-8.
  answering(Buffer.from(
    response(200, succeeded.replace("ref-1", "ref-\xff"), { "Content-Length": String(succeeded.length) }),
    "latin1"
  )),
  // No content type.
  answering(`HTTP/1.1 200 OK\r\nContent-Length: ${succeeded.length}\r\n\r\n${succeeded}`),
  answering(response(200, JSON.stringify({ ...JSON.parse(succeeded), pad: "x".repeat(5000) }))),
  // Headers without an end.
  {
    onRequest: (socket) => {
      const more = () => {
        if (socket.writable) socket.write(`X-Pad: ${"x".repeat(60_000)}\r\n`, more)
      }
      socket.write("HTTP/1.1 200 OK\r\n", more)
    }
  },
  answering("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"),
  answering("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
  answering("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
]

const examples = misbehaviours.map((instead): [Case] => [
  { status: 0, body: "", headers: {}, cut: 0, end: "stall", early: false, instead }
])

const anyCase: fc.Arbitrary<Case> = fc.record({
  status,
  body,
  headers,
  cut: fc.oneof(fc.constant(10_000), fc.constant(10_000), fc.nat(200)),
  end: fc.constantFrom("close", "close", "reset", "stall"),
  early: fc.boolean()
})

/** Whether this answer, read to the end, declares a success. */
const declaresSuccess = ({ body, status }: Case) => {
  try {
    const parsed: unknown = JSON.parse(body)
    return status === 200 && (parsed as { status?: unknown }).status === "succeeded"
  } catch {
    return false
  }
}

const serve = ({ body, cut, early, end, headers, instead, status }: Case): Behaviour => {
  if (instead !== undefined) return instead
  const bytes = response(status, body, headers).slice(0, cut)
  const answer = (socket: net.Socket) => {
    if (socket.writableEnded || socket.destroyed) return
    if (end === "close") socket.end(bytes)
    else socket.write(bytes, () => end === "reset" && socket.resetAndDestroy())
  }
  return early ? { onBytes: answer } : { onRequest: answer }
}

describe("The adapter, after any answer of a provider,", () => {
  for (const [name, client] of clients) {
    it(`reports over ${name} only declared outcomes, and NotSent only if no byte arrived`, async () => {
      const runtime = ManagedRuntime.make(client().pipe(Layer.orDie))
      await fc.assert(
        fc.asyncProperty(anyCase, (one) =>
          runtime.runPromise(
            Effect.gen(function*() {
              const server = yield* rawServer(serve(one))
              const options = optionsFor(server.url, { deadlines: { headers: 60, body: 60 }, maxBodySize: 4096 })
              const operation = operationOf()
              const { _tag, reason } = yield* submitTo(options, operation)
              assert.include(["Succeeded", "Rejected", "NotSent", "Uncertain"], _tag)
              if (_tag === "NotSent") assert.strictEqual(server.bytes(), 0, reason)
              if (_tag === "Succeeded") assert.isTrue(declaresSuccess(one))
              if (_tag === "Rejected") assert.strictEqual(one.status, 422)
              const sent = server.requests.filter(({ key }) => key === operation.id)
              assert.isAtMost(sent.length, name === "fetch" && one.status === 421 ? 2 : 1)
              const read = yield* readFrom(options, operation)
              assert.include(["Proven", "NotFound", "NotProven"], read._tag)
              if (read._tag === "Proven") assert.isTrue(declaresSuccess(one))
            }).pipe(Effect.scoped)
          )),
        { numRuns: misbehaviours.length + rounds(50, 150), examples }
      )
      await runtime.dispose()
    })
  }
})
