/**
 * The HTTP adapter takes a provider's answer as evidence only if the team's decoders declare it. The tests use a raw
 * socket server.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Schema } from "effect"
import { type ProviderOperation, ProviderReference } from "../../../../src/domain/Submission.ts"
import * as ProviderHttpClient from "../../../../src/node/http/ProviderHttpClient.ts"
import { byStatus, evidenceOf, onBody, ReadOn } from "../../../../src/submission/http/HttpDecoding.ts"
import * as HttpProvider from "../../../../src/submission/http/HttpProvider.ts"
import {
  namesNothing,
  NextRequest,
  type ProviderPromises,
  SendDeadline,
  StatusAnswer
} from "../../../../src/submission/providers/ProviderAdapter.ts"
import {
  answering,
  type Behaviour,
  failureOf,
  inMillis,
  operationOf,
  optionsFor,
  rawServer,
  readFrom,
  response,
  submitTo,
  succeeded
} from "../../../fixtures/submission/HttpProviderServer.ts"

const headerOf = (head: string, name: string) => new RegExp(`^${name}: (.*)$`, "im").exec(head)?.[1]

describe("A submission", () => {
  it.live("tells the provider `send_before`, and is held back by the deadline of the process", () =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering(response(200, succeeded)))
      const options = optionsFor(server.url, { promises: { lateRequests: { header: "Send-Before" } } })
      const [early, late] = [yield* inMillis(-3_600_000), yield* inMillis(3_600_000)]
      const submit = (send_before: DateTime.Utc, deadline: DateTime.Utc) =>
        Effect.provideService(
          submitTo(options, operationOf({ send_before })),
          SendDeadline,
          DateTime.toEpochMillis(deadline)
        )
      assert.strictEqual((yield* submit(early, late))._tag, "Succeeded")
      assert.strictEqual(headerOf(server.requests[0]!.head, "send-before"), DateTime.formatIso(early))
      assert.deepInclude(yield* submit(late, early), { _tag: "NotSent", reason: "send_before has passed" })
      assert.lengthOf(server.requests, 1)
    }).pipe(Effect.provide(ProviderHttpClient.layer())))
})

describe("Decoders", () => {
  const layer = ProviderHttpClient.layer()
  const failures: ReadonlyArray<readonly [string, () => Effect.Effect<never>]> = [
    ["die", () => Effect.die(new Error("secret"))],
    ["throw", () => {
      throw new Error("secret")
    }],
    ["never end", () => Effect.never],
    ["are interrupted", () => Effect.interrupt]
  ]
  for (const [what, decode] of failures) {
    it.live(`that ${what} leave the outcome uncertain, and prove nothing`, () =>
      Effect.gen(function*() {
        const server = yield* rawServer(answering(response(200, succeeded)))
        const base = optionsFor(server.url, { deadlines: { body: 50 } })
        const options = { ...base, submit: { ...base.submit, decode }, status: { ...base.status, decode } }
        const { _tag, reason } = yield* submitTo(options)
        assert.strictEqual(_tag, "Uncertain")
        assert.notInclude(reason, "secret")
        const status = yield* readFrom(options)
        assert.deepInclude(status, { _tag: "NotProven", reason: "unclear" })
        assert.notInclude(JSON.stringify(status), "secret")
      }).pipe(Effect.provide(layer)))
  }
})

describe("The probe of an adapter", () => {
  const undeclared =
    "a status read of an operation that does not exist got status 404, which is not declared: GET /mutations/…"
  const unanswered = "no answer"
  it.live.each<readonly [string, Behaviour, string | null]>([
    [
      "the 404 of another path",
      answering(response(404, "<html>secret</html>", { "Content-Type": "text/html" })),
      undeclared
    ],
    ["an answer that the adapter declares", answering(response(200, succeeded)), null],
    ["a gateway in front of the bank", answering(response(503, "{}")), unanswered]
  ])("reads a status, and tells of %s", ([, behaviour, expected]) =>
    Effect.gen(function*() {
      const server = yield* rawServer(behaviour)
      const { probe } = yield* HttpProvider.make(optionsFor(server.url))
      assert.strictEqual(yield* Effect.orElseSucceed(probe!, () => unanswered), expected)
      assert.deepStrictEqual(server.requests.map(({ head }) => head.split(" ")[0]), ["GET"])
      assert.isFalse("probe" in (yield* HttpProvider.make({ ...optionsFor(server.url), probe: false })))
    }).pipe(Effect.provide(ProviderHttpClient.layer())))

  it.live("reads a status, and tells of a refused key, unless each operation has credentials of its own", () =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering(response(401, "{}")))
      const base = optionsFor(server.url)
      const options = {
        ...base,
        status: { ...base.status, decode: HttpProvider.byStatus({ 401: HttpProvider.wrongCredentials }) }
      }
      const probed = (options: HttpProvider.HttpProviderOptions) =>
        Effect.flatMap(HttpProvider.make(options), ({ probe }) => probe!)
      assert.strictEqual(yield* probed(options), "the provider refused the credentials: status 401")
      assert.isNull(yield* probed({ ...options, credentialsOf: "operation" }))
      assert.isNull(yield* probed(base), "the adapter declares no 401")
    }).pipe(Effect.provide(ProviderHttpClient.layer())))

  it.effect.each<ProviderPromises>([{}, { readByOperationId: "no" }, { readByOperationId: "indirectly" }])(
    "is none without a read by the operation's id: %j",
    (promises) =>
      Effect.gen(function*() {
        assert.isFalse("probe" in (yield* HttpProvider.make(optionsFor("http://127.0.0.1:1", { promises }))))
      }).pipe(Effect.provide(ProviderHttpClient.layer()))
  )
})

describe("An answer to a submission that is not declared", () => {
  const cases: ReadonlyArray<readonly [string, string, boolean]> = [
    ["404 with JSON", response(404, "{}"), true],
    ["404 with a page", response(404, "<html>secret</html>", { "Content-Type": "text/html" }), true],
    ["401 with JSON", response(401, "{}"), true],
    ["200 with another body", response(200, `{"secret":1}`), true],
    ["a redirect", response(302, "{}", { Location: "/secret" }), true],
    ["502 of a gateway", response(502, "{}"), false],
    ["503 of a gateway", response(503, "{}"), false]
  ]
  for (const [what, answer, isUndeclared] of cases) {
    it.live(`is uncertain after ${what}, ${isUndeclared ? "and" : "but not"} marked as undeclared`, () =>
      Effect.gen(function*() {
        const server = yield* rawServer(answering(answer))
        const failure = yield* failureOf(optionsFor(server.url))
        assert.strictEqual(failure._tag, "Uncertain")
        assert.strictEqual("isUndeclared" in failure, isUndeclared)
        assert.strictEqual("isUnauthorized" in failure, answer.includes(" 401 "))
        const ofOwner = yield* failureOf({ ...optionsFor(server.url), credentialsOf: "operation" })
        assert.notProperty(ofOwner, "isUnauthorized")
        assert.strictEqual(failure.reason.endsWith(": POST /mutations"), answer.includes(" 404 "))
        assert.notInclude(failure.reason, "secret")
      }).pipe(Effect.provide(ProviderHttpClient.layer())))
  }
})

describe("A declared answer that leaves the outcome unknown", () => {
  it.live.each<readonly [number, true | undefined]>([
    [400, true],
    [409, true],
    [500, undefined]
  ])("shows with status %i whether the provider works: %s", ([status, isAnswer]) =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering(response(status, "{}")))
      const base = optionsFor(server.url)
      const failure = yield* failureOf({ ...base, submit: { ...base.submit, decode: HttpProvider.undecided } })
      assert.strictEqual(failure._tag === "Uncertain" ? failure.isAnswer : failure._tag, isAnswer)
    }).pipe(Effect.provide(ProviderHttpClient.layer())))
})

describe("The request that a 404 names", () => {
  it.live("has no query, and no segment that may be an id, an account or a secret", () =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering(response(404, "{}")))
      const base = optionsFor(`${server.url}/v3.1/T0k3nOf16LettersX`)
      const path = "/accounts/DE89370400440532013000/customers/1234567/payments?api_key=secret"
      const { reason } = yield* failureOf({ ...base, submit: { ...base.submit, request: () => ({ path, body: {} }) } })
      assert.match(reason, /: POST \/v3\.1\/…\/accounts\/…\/customers\/…\/payments$/)
    }).pipe(Effect.provide(ProviderHttpClient.layer())))
})

describe("A status read", () => {
  const layer = ProviderHttpClient.layer()

  it.live("is a GET without a body or a key, and reports the proven state", () =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering(response(200, succeeded)))
      const operation = operationOf()
      assert.deepStrictEqual(
        yield* readFrom(optionsFor(server.url), operation),
        StatusAnswer.Proven({
          state: "succeeded",
          names: { reference: "ref-1" as ProviderReference, operation_id: null },
          evidence: { status: 200, body: JSON.parse(succeeded) }
        })
      )
      assert.isTrue(server.requests[0]!.head.startsWith(`GET /mutations/${operation.id} HTTP/1.1`))
      assert.isUndefined(server.requests[0]!.key)
      assert.isUndefined(headerOf(server.requests[0]!.head, "content-length"))
    }).pipe(Effect.provide(layer)))

  const unproven: ReadonlyArray<readonly [what: string, behaviour: Behaviour, reason: "unclear" | "unreachable"]> = [
    ...[502, 503, 504].map((status) =>
      [`a gateway answers with ${status}`, answering(response(status, "<html>")), "unreachable"] as const
    ),
    ...[401, 403, 429, 500].map((status) =>
      [`is answered with ${status}`, answering(response(status, "{}")), "unclear"] as const
    ),
    ["the provider drops", { onRequest: (socket) => socket.destroy() }, "unreachable"],
    ["the provider stalls", {}, "unreachable"]
  ]
  for (const [what, behaviour, reason] of unproven) {
    it.live(`that ${what} proves nothing: ${reason}`, () =>
      Effect.gen(function*() {
        const server = yield* rawServer(behaviour)
        // Only a provider that stalls needs a short deadline, which a busy machine may miss.
        const status = yield* readFrom(
          optionsFor(server.url, what.endsWith("stalls") ? { deadlines: { headers: 50 } } : {})
        )
        assert.deepInclude(status, { _tag: "NotProven", reason })
      }).pipe(Effect.provide(layer)))
  }

  it.live("that the provider answers with \"not found\" keeps its answer as evidence", () =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering(response(404, `{"code":"not_found"}`)))
      assert.deepStrictEqual(
        yield* readFrom(optionsFor(server.url)),
        StatusAnswer.NotFound({ names: namesNothing, evidence: { status: 404, body: { code: "not_found" } } })
      )
    }).pipe(Effect.provide(layer)))

  it.live("that follows an answer to a resource which is not found proves nothing of the operation", () =>
    Effect.gen(function*() {
      const server = yield* rawServer({
        onRequest: (socket, _, index) => socket.write(response(index === 1 ? 200 : 404, `{"code":"not_found"}`))
      })
      const decode = byStatus({
        404: onBody(
          Schema.Unknown,
          (_, answer) => StatusAnswer.NotFound({ names: namesNothing, evidence: evidenceOf(answer) })
        )
      })
      const status = {
        request: ({ id }: ProviderOperation) => ({ path: `/replaced/${id}` }),
        decode: byStatus({ 200: onBody(Schema.Unknown, () => new ReadOn({ path: "/by", decode })) })
      }
      assert.deepInclude(yield* readFrom(optionsFor(server.url, { status })), { _tag: "NotFound", evidence: null })
      assert.lengthOf(server.requests, 2)
    }).pipe(Effect.provide(layer)))

  const Page = Schema.Struct({
    transfers: Schema.Array(Schema.Struct({ id: ProviderReference, key: Schema.String, amount: Schema.String })),
    more: Schema.Boolean
  })

  /** A bank that lists its transfers, without a filter by the key, in pages. */
  const listed = (pages: ReadonlyArray<string>, length: number) =>
    Effect.map(
      rawServer({
        onRequest: (socket, _, index) => {
          const key = pages[index - 1]
          const transfers = key === undefined ? [] : [{ id: `ref-${index}`, key, amount: "9.00" }]
          socket.write(response(200, JSON.stringify({ transfers, more: index < length })))
        }
      }),
      (server) => ({
        server,
        options: optionsFor(server.url, {
          status: {
            needsPayload: true,
            isUnfiltered: true,
            request: () => ({ path: "/transfers", headers: { "X-Version": "2" } }),
            decode: (answer, { operation, payload }) =>
              onBody(Page, ({ more, transfers }) => {
                const own = transfers.find(({ key }) => key === operation.id)
                if (own === undefined) {
                  return more
                    ? new ReadOn({ path: `/transfers?after=${transfers.at(-1)?.id}` })
                    : StatusAnswer.NotFound({ names: namesNothing, evidence: evidenceOf(answer) })
                }
                return own.amount === payload
                  ? StatusAnswer.Proven({
                    state: "succeeded",
                    names: { reference: own.id, operation_id: own.key },
                    evidence: own.id
                  })
                  : StatusAnswer.NotProven({ reason: "unclear", detail: "the amount differs" })
              })(answer)
          }
        })
      })
    )

  const read = (options: HttpProvider.HttpProviderOptions, payload: Schema.Json, operation = operationOf()) =>
    Effect.flatMap(HttpProvider.make(options), ({ readStatus }) => readStatus(operation, null, payload))

  it.live("that searches a list finds the own key on a later page, and compares what the entry repeats", () =>
    Effect.gen(function*() {
      const operation = operationOf()
      const found = yield* listed(["another", operation.id], 3)
      assert.deepInclude(yield* read(found.options, "9.00", operation), {
        _tag: "Proven",
        names: { reference: ProviderReference.make("ref-2"), operation_id: operation.id }
      })
      assert.deepStrictEqual(found.server.requests.map(({ head }) => head.split(" ")[1]), [
        "/transfers",
        "/transfers?after=ref-1"
      ])
      for (const { head } of found.server.requests) assert.match(head, /^x-version: 2\r?$/im)
      const differing = yield* listed([operation.id], 1)
      assert.deepInclude(yield* read(differing.options, "1.00", operation), { detail: "the amount differs" })
      assert.isTrue((yield* HttpProvider.make(differing.options)).readsNeedPayload)
    }).pipe(Effect.provide(layer)))

  it.live.each([{ length: 1, tag: "NotFound" }, { length: 9, tag: "NotFound" }, { length: 10, tag: "NotProven" }])(
    "that finds no own key in a list of $length pages is $tag, because a page that was not read proves nothing",
    ({ length, tag }) =>
      Effect.gen(function*() {
        const { options, server } = yield* listed([], length)
        const status = yield* read(options, "9.00")
        assert.strictEqual(status._tag, tag)
        if (status._tag === "NotFound") assert.deepInclude(status.evidence, { status: 200 })
        assert.lengthOf(server.requests, Math.min(length, 9))
      }).pipe(Effect.provide(layer))
  )

  it.live.each([{ permits: 9, requests: 3 }, { permits: 1, requests: 2 }])(
    "that goes on takes a permit for each further request: with $permits of them it makes $requests requests",
    ({ permits, requests }) =>
      Effect.gen(function*() {
        let free = permits
        const { options, server } = yield* listed([], 3)
        const status = yield* Effect.provideService(read(options, "9.00"), NextRequest, Effect.sync(() => free-- > 0))
        assert.lengthOf(server.requests, requests)
        if (requests === 3) return assert.strictEqual(free, permits - 2)
        assert.deepStrictEqual(
          status,
          StatusAnswer.NotProven({
            reason: "unclear",
            detail: "the limit of the provider lets no further request begin"
          })
        )
      }).pipe(Effect.provide(layer))
  )

  for (
    const [what, bytes] of [
      ["a page", response(404, "<html>", { "Content-Type": "text/html" })],
      ["another body than declared", response(404, `{"code":"no_such_route"}`)],
      ["nothing", response(404, "")]
    ] as const
  ) {
    it.live(`that is answered 404 with ${what} is not found, without evidence, because a proxy may answer so`, () =>
      Effect.gen(function*() {
        const server = yield* rawServer(answering(bytes))
        assert.deepInclude(yield* readFrom(optionsFor(server.url)), { _tag: "NotFound", evidence: null })
      }).pipe(Effect.provide(layer)))
  }
})
