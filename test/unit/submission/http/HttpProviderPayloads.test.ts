/**
 * The HTTP adapter sends only payloads that fit its declared schemas, and says what failed without quoting a payload. The
 * tests use a raw socket server.
 */
import { assert, describe, it } from "@effect/vitest"
import { Data, Effect, Redacted, Schema, SchemaGetter, SchemaIssue } from "effect"
import { HttpClient, HttpClientError } from "effect/http"
import * as path from "node:path"
import * as ProviderHttpClient from "../../../../src/node/http/ProviderHttpClient.ts"
import { byStatus, onBody, refusedForNow, wrongCredentials } from "../../../../src/submission/http/HttpDecoding.ts"
import * as HttpProvider from "../../../../src/submission/http/HttpProvider.ts"
import type { HttpProviderOptions, SubmissionArguments } from "../../../../src/submission/http/HttpProviderOptions.ts"
import type { HttpSubmission } from "../../../../src/submission/http/HttpRequest.ts"
import { NotSent } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { fieldsOf } from "../../../fixtures/ledger/Ledger.ts"
import {
  answering,
  decodeSubmission,
  failureOf,
  operationOf,
  optionsFor,
  rawServer,
  response,
  succeeded
} from "../../../fixtures/submission/HttpProviderServer.ts"

const layer = ProviderHttpClient.layer()

/** The fields of a local failure. Compare fields: Chai compares no more than names and messages of errors. */
const local = (reason: string) => ({ _tag: "NotSent", reason, isLocal: true })

/** The same of one operation: five owners must meet it before it pauses the provider for all. */
const ofPayload = (reason: string) => ({ ...local(reason), isOfOperation: true })

const payloads = {
  payment: Schema.Struct({
    amount: Schema.BigIntFromString,
    creditor: Schema.Struct({ iban: Schema.String.check(Schema.isMinLength(15)) })
  }),
  refund: Schema.Struct({ lines: Schema.Array(Schema.Number) })
}

/** No test reads a status. */
const status = {
  request: ({ id }: { readonly id: string }) => ({ path: `/${id}` }),
  decode: HttpProvider.wrongCredentials
}

const declaring = (
  url: string,
  request: (...submission: SubmissionArguments<typeof payloads>) => HttpSubmission = (_, payload, type) =>
    type === "payment"
      ? { path: "/payments", body: { cents: String(payload.amount * 100n) } }
      : { path: "/refunds", body: payload }
): HttpProviderOptions<typeof payloads> => {
  const { promises } = optionsFor(url)
  return { baseUrl: url, payloads, promises, status, submit: { request, decode: decodeSubmission } }
}

describe("An adapter that declares payloads", () => {
  it.live("builds the request from the decoded payload of the operation's type", () =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering(response(200, succeeded)))
      const { payloads: declared, submit } = yield* HttpProvider.make(declaring(server.url))
      assert.strictEqual(declared, payloads)
      yield* submit(operationOf(), { amount: "12", creditor: { iban: "DE89370400440532013000" } })
      yield* submit(operationOf({ type: "refund" as never }), { lines: [1, 2] })
      assert.deepStrictEqual(server.requests.map(({ body, head }) => [head.split(" ")[1], body]), [
        ["/payments", `{"cents":"1200"}`],
        ["/refunds", `{"lines":[1,2]}`]
      ])
    }).pipe(Effect.provide(layer)))

  it.live("does not send a payload that fits no more: a failure of its operation names the members and what was expected", () =>
    Effect.gen(function*() {
      const server = yield* rawServer(answering(response(200, succeeded)))
      const payload = { amount: "secret", creditor: { iban: "secret", secret: 1 }, secret: 1 }
      const expected =
        "the payload does not fit the schema of payment: *: Expected only members that the provider takes; "
        + "amount: Expected a string representing a bigint; creditor.*: Expected only members that the provider takes; "
        + "creditor.iban: Expected a value with a length of at least 15"
      const failure = yield* failureOf(declaring(server.url), operationOf(), payload)
      assert.deepStrictEqual(fieldsOf(failure), ofPayload(expected))
      assert.strictEqual(server.connections(), 0)
    }).pipe(Effect.provide(layer)))

  const quoting: ReadonlyArray<Schema.ConstraintDecoder<unknown>> = [
    Schema.fromJsonString(Schema.Json),
    Schema.URLFromString,
    Schema.FiniteFromString,
    Schema.BigIntFromString,
    Schema.DateTimeUtcFromString,
    Schema.Literals(["a", "b"]),
    Schema.Struct({ a: Schema.String }),
    Schema.String.pipe(Schema.decodeTo(Schema.String, {
      decode: SchemaGetter.transformEffect((text: string) =>
        Effect.fail(new SchemaIssue.InvalidValue({ message: `not ${text}` }))
      ),
      encode: SchemaGetter.passthrough()
    }))
  ]
  for (const [index, schema] of quoting.entries()) {
    it.live(`quotes no value in the reason (schema ${index})`, () =>
      Effect.gen(function*() {
        const { fence: _fence, isPermitted: _isPermitted, ...base } = optionsFor("http://127.0.0.1:1")
        const options = {
          ...base,
          status,
          payloads: { payment: Schema.Struct({ member: schema }) }
        }
        const { reason } = yield* failureOf(
          {
            ...options,
            credentials: () => Effect.succeed({}),
            submit: { request: () => ({ path: "/", body: {} }), decode: decodeSubmission }
          },
          operationOf(),
          { member: "secret" }
        )
        assert.match(reason, /^the payload does not fit the schema of payment: member: Expected /)
        assert.notInclude(reason, "secret")
      }).pipe(Effect.provide(layer)))
  }

  it.live("names at most eight members that do not fit", () =>
    Effect.gen(function*() {
      const operation = operationOf({ type: "refund" as never })
      const failure = yield* failureOf(declaring("http://127.0.0.1:1"), operation, { lines: Array(100).fill("secret") })
      const named = Array.from({ length: 8 }, (_, n) => `lines.${n}: Expected number`)
      const members = [...named, "and others"].join("; ")
      assert.deepStrictEqual(fieldsOf(failure), ofPayload(`the payload does not fit the schema of refund: ${members}`))
    }).pipe(Effect.provide(layer)))

  it.live("does not send a type that it does not declare: a failure of its operation", () =>
    Effect.gen(function*() {
      const operation = operationOf({ type: "constructor" as never })
      assert.deepStrictEqual(
        fieldsOf(yield* failureOf(declaring("http://127.0.0.1:1"), operation)),
        ofPayload("the adapter declares no payload of the type constructor")
      )
    }).pipe(Effect.provide(layer)))

  it.live("keeps the name of a defect of its schema", () =>
    Effect.gen(function*() {
      const dying = Schema.Json.check(Schema.makeFilter(() => {
        throw new RangeError("secret")
      }))
      const options = { ...optionsFor("http://127.0.0.1:1"), payloads: { payment: dying } }
      const { reason } = yield* failureOf(options)
      assert.match(
        reason,
        /^the payload does not fit the schema of payment: RangeError at HttpProviderPayloads.test.ts:/
      )
    }).pipe(Effect.provide(layer)))
})

/** The request of an adapter that throws. */
const throwing = (thrown: () => unknown) => {
  const options = optionsFor("http://127.0.0.1:1")
  return failureOf({
    ...options,
    submit: {
      ...options.submit,
      request: () => {
        throw thrown()
      }
    }
  })
}

describe("A request that cannot be built", () => {
  const own = path.basename(import.meta.filename)

  it.live("is local, and names the error and its position in the adapter", () =>
    Effect.gen(function*() {
      const failure = yield* throwing(() => new TypeError("secret"))
      const [, position] = /^the request cannot be encoded: TypeError at (.*)$/.exec(failure.reason) ?? []
      assert.match(position ?? "", new RegExp(`^${own}:\\d+:\\d+$`))
      assert.deepStrictEqual(fieldsOf(failure), ofPayload(failure.reason))
    }).pipe(Effect.provide(layer)))

  it.live("because it cannot be signed is a failure of all operations", () =>
    Effect.gen(function*() {
      const { submit, ...options } = optionsFor("http://127.0.0.1:1")
      const sign = () => Effect.die(new RangeError("secret"))
      const failure = yield* failureOf({ ...options, submit: { ...submit, sign } })
      assert.match(failure.reason, /^the request cannot be encoded: RangeError/)
      assert.deepStrictEqual(fieldsOf(failure), local(failure.reason))
    }).pipe(Effect.provide(layer)))

  it.live("reveals no line of a message, even one that looks like a stack frame", () =>
    Effect.gen(function*() {
      const { reason } = yield* throwing(() => new Error("secret\n    at secret (/secret.js:1:1)"))
      assert.match(reason, new RegExp(`^the request cannot be encoded: Error at ${own}:\\d+:\\d+$`))
    }).pipe(Effect.provide(layer)))

  class Unsupported extends Data.TaggedError("Unsupported")<{ readonly detail: string }> {}
  const named: ReadonlyArray<readonly [string, () => unknown, string]> = [
    ["the tag of a tagged error", () => new Unsupported({ detail: "secret" }), `Unsupported at ${own}`],
    ["the kind of a value that is no error", () => "secret", "string"],
    ["no name that may be a message", () => Object.assign(new Error("x"), { name: "a secret" }), `Error at ${own}`],
    ["no stack that is none", () => Object.assign(new Error("x"), { stack: "secret" }), "Error"],
    ["nothing of an error with getters that throw", () =>
      Object.defineProperty(new Error("x"), "stack", {
        get: () => {
          throw new Error("secret")
        }
      }), "Error"]
  ]
  for (const [what, thrown, expected] of named) {
    it.live(`keeps ${what}`, () =>
      Effect.gen(function*() {
        const { reason } = yield* throwing(thrown)
        assert.strictEqual(reason.replace(/:\d+:\d+$/, ""), `the request cannot be encoded: ${expected}`)
      }).pipe(Effect.provide(layer)))
  }

  it.live("because its body is no JSON names no frame of this library", () =>
    Effect.gen(function*() {
      const { submit, ...options } = optionsFor("http://127.0.0.1:1")
      const request = () => ({ path: "/", body: 1n as never })
      const { reason } = yield* failureOf({ ...options, submit: { ...submit, request } })
      assert.strictEqual(reason, "the request cannot be encoded: TypeError")
    }).pipe(Effect.provide(layer)))
})

describe("Credentials that cannot be had", () => {
  class VaultSealed extends Data.TaggedError("VaultSealed")<{ readonly token: string }> {}
  const cases: ReadonlyArray<readonly [string, () => Effect.Effect<never, unknown>, string]> = [
    ["by the tag of the error", () => Effect.fail(new VaultSealed({ token: "secret" })), "no credentials: VaultSealed"],
    ["by the name of a defect", () => Effect.die(new TypeError("secret")), "no credentials: TypeError"],
    [
      "by the code of its cause",
      () => Effect.tryPromise(() => Promise.reject(Object.assign(new Error("secret"), { code: "ECONNREFUSED" }))),
      "no credentials: UnknownError: ECONNREFUSED"
    ],
    [
      "by the name of its cause",
      () => Effect.fail(new Error("secret", { cause: new RangeError("secret") })),
      "no credentials: Error: RangeError"
    ],
    ["without a text", () => Effect.fail("secret"), "no credentials"],
    ["by the time limit", () => Effect.never, "no credentials within 20ms"]
  ]
  for (const [what, credentials, reason] of cases) {
    it.live(`are a local failure, described ${what}`, () =>
      Effect.gen(function*() {
        const options = optionsFor("http://127.0.0.1:1", { credentials, deadlines: { headers: 20 } })
        assert.deepStrictEqual(fieldsOf(yield* failureOf(options)), local(reason))
      }).pipe(Effect.provide(layer)))
  }

  it.live("for a header are a local failure, described by the name of the header", () =>
    Effect.gen(function*() {
      const credentials = () => Effect.succeed({ "X-Key": Redacted.make("secret\n") })
      assert.deepStrictEqual(
        fieldsOf(yield* failureOf(optionsFor("http://127.0.0.1:1", { credentials }))),
        local("the request cannot be encoded: the value of the header X-Key is invalid")
      )
    }).pipe(Effect.provide(layer)))
})

describe("An answer that declares that nothing was done", () => {
  const notSent = (flags: Partial<NotSent>) =>
    onBody(Schema.Json, () => Effect.fail(new NotSent({ reason: "documented", ...flags })))
  const both = { 401: wrongCredentials, 403: wrongCredentials, 429: refusedForNow, 503: refusedForNow }
  const submission = byStatus({
    ...both,
    410: notSent({ isPermanent: true }),
    418: notSent({}),
    423: notSent({ isLocal: true, isRefused: false })
  })
  const expected: ReadonlyArray<readonly [status: number, failure: Partial<NotSent>]> = [
    [401, { reason: "the provider refused the credentials: status 401", isLocal: true }],
    [403, { reason: "the provider refused the credentials: status 403", isLocal: true }],
    [410, { reason: "documented", isPermanent: true }],
    [418, { reason: "documented" }],
    [423, { reason: "documented", isLocal: true }],
    [429, { reason: "status 429" }],
    [503, { reason: "status 503" }]
  ]
  for (const [status, failure] of expected) {
    it.live(`${status}: is a refusal of a submission, because the request has left, and a status read proves nothing`, () =>
      Effect.gen(function*() {
        const server = yield* rawServer(answering(response(status, `{"secret":1}`)))
        const base = optionsFor(server.url)
        const options = {
          ...base,
          submit: { ...base.submit, decode: submission },
          status: { ...base.status, decode: byStatus(both) }
        }
        assert.deepStrictEqual(fieldsOf(yield* failureOf(options)), { _tag: "NotSent", isRefused: true, ...failure })
        if (!(status in both)) return
        const { readStatus } = yield* HttpProvider.make(options)
        const answer = yield* readStatus(operationOf(), null)
        assert.deepStrictEqual({ ...answer }, { _tag: "NotProven", reason: "unclear", detail: failure.reason! })
      }).pipe(Effect.provide(layer)))
  }
})

describe("A connection that is never made", () => {
  const failing = (...causes: ReadonlyArray<Error>) =>
    Effect.provideService(
      HttpClient.HttpClient,
      HttpClient.make((request) => {
        const cause = causes.length === 1 ? causes[0]! : new AggregateError(causes)
        return Effect.fail(
          new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request, cause }) })
        )
      })
    )
  const coded = (code: string, syscall?: string) => Object.assign(new Error("secret"), { code, syscall })
  const connect = (code: string) => coded(code, "connect")
  const noAddress = "the host name of the provider has no address"
  const untrusted = "the certificate of the provider was refused"

  type Row = readonly [what: string, causes: ReadonlyArray<Error>, local: string | null]
  const rows: ReadonlyArray<Row> = [
    ["ENOTFOUND", [coded("ENOTFOUND")], noAddress],
    ["EAI_AGAIN", [coded("EAI_AGAIN")], noAddress],
    ["EAI_FAIL", [coded("EAI_FAIL", "getaddrinfo")], noAddress],
    ["CERT_HAS_EXPIRED", [coded("CERT_HAS_EXPIRED")], untrusted],
    ["DEPTH_ZERO_SELF_SIGNED_CERT", [coded("DEPTH_ZERO_SELF_SIGNED_CERT")], untrusted],
    ["ERR_TLS_CERT_ALTNAME_INVALID", [coded("ERR_TLS_CERT_ALTNAME_INVALID")], untrusted],
    ...["ENETUNREACH", "EMFILE", "EADDRNOTAVAIL", "EPERM"].flatMap((code): ReadonlyArray<Row> => [
      [code, [connect(code), connect(code)], "this machine cannot connect"],
      [`${code} and a refusal`, [connect(code), connect("ECONNREFUSED")], null]
    ]),
    ["a refusal", [connect("ECONNREFUSED")], null],
    ["a timeout", [coded("UND_ERR_CONNECT_TIMEOUT")], null],
    ["several addresses, of which one refused", [coded("ENOTFOUND"), connect("ECONNREFUSED")], null]
  ]
  for (const [what, causes, why] of rows) {
    const kind = why === null ? "not local: the provider is down" : "a local failure: an operator repairs it"
    it.live(`because of ${what} is ${kind}`, () =>
      Effect.gen(function*() {
        const failure = yield* failureOf(optionsFor("https://bank.example"))
        const expected = why === null
          ? { _tag: "NotSent", reason: failure.reason }
          : local(`${why}: the request failed (TransportError, ${what})`)
        assert.deepStrictEqual(fieldsOf(failure), expected)
        // Operators see a mistyped address.
        if (why === null) assert.match(failure.reason, /\): bank\.example$/)
      }).pipe(failing(...causes)))
  }
})
