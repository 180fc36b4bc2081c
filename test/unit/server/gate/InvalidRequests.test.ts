/**
 * A request that does not fit its endpoint is 422, and the problem names every failure without repeating values. The
 * tests send invalid and valid requests on both ways.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Gateway, memoryGateway, refuses, type Request } from "../../../fixtures/http/HttpGateway.ts"
import { accept, issue } from "../../../fixtures/http/HttpScene.ts"

const list = "/v1/operations"
const id = "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"
const body = { headers: { "content-length": "2" }, body: "{}" }
const chunked = { headers: { "transfer-encoding": "chunked" }, body: "{}" }

interface Case {
  readonly target: string
  readonly request?: Request
  /** The paths of the fields, in any order. */
  readonly paths: ReadonlyArray<string>
}

const lists = (query: string, ...paths: ReadonlyArray<string>): Case => ({ target: `${list}?${query}`, paths })
const gets = (path: string, ...paths: ReadonlyArray<string>): Case => ({ target: `${list}/${path}`, paths })

const wrongInstants = [
  "",
  "today",
  "2026-01-31",
  "2026-01-31T12:00:00",
  "2026-01-31%2012:00:00Z",
  "2026-02-30T12:00:00Z",
  "2026-13-01T12:00:00Z",
  "2026-01-31T24:00:00Z",
  "2026-01-31T12:60:00Z",
  "2026-01-31T12:00:00.Z",
  "2026-01-31T12:00:00.1234567890Z",
  "2026-01-31T12:00:00%2B24:00",
  "2026-01-31T12:00:00+01:00",
  "1769860800000",
  "%00"
]

const cases: ReadonlyArray<Case> = [
  ...["pending", "Accepted", "accepted,failed", "", "%00", "%zz"].map((state) =>
    lists(`state=${state}`, "query.state.0")
  ),
  lists("state=accepted&state=nope&state=failed&state=never", "query.state.1", "query.state.3"),
  lists("state=accepted&".repeat(8).slice(0, -1), "query.state"),
  ...["", "Payment", "1payment", "pay-ment", "payment%20", "%00", "a".repeat(65), "p%C3%A4yment"].map((type) =>
    lists(`type=${type}`, "query.type")
  ),
  ...wrongInstants.map((instant) => lists(`created_after=${instant}`, "query.created_after")),
  lists("created_before=today", "query.created_before"),
  ...["", "%20", "a+b", "a%20b", "%00", "%7F", "%C3%A4", "a".repeat(256)].map((key) =>
    lists(`idempotency_key=${key}`, "query.idempotency_key")
  ),
  ...["0", "101", "-1", "1.5", "1e1", "01", "%201", "+1", "", "ten", "0x10", "9".repeat(30), "%D9%A1"].map((size) =>
    lists(`page_size=${size}`, "query.page_size")
  ),
  ...["type", "created_after", "created_before", "idempotency_key", "page_size", "page_token"].map((name) =>
    lists(`${name}=1&${name}=1`, `query.${name}`)
  ),
  lists("sort=asc", "query.sort"),
  // Stamped before the commit, so it would lose updates.
  lists("updated_after=2026-01-31T12:00:00Z", "query.updated_after"),
  lists("State=accepted", "query.State"),
  lists("state[]=accepted", "query.state[]"),
  lists("__proto__=1&constructor=1&toString=1", "query.__proto__", "query.constructor", "query.toString"),
  lists("offset=1&page_size=0&type=X&state=x", "query.offset", "query.page_size", "query.type", "query.state.0"),
  { target: list, request: body, paths: ["body"] },
  { target: list, request: chunked, paths: ["body"] },
  { target: `${list}?page_size=0&x=1`, request: body, paths: ["query.page_size", "query.x", "body"] },
  ...[
    "not-an-id",
    "1",
    id.toUpperCase(),
    id.slice(1),
    `${id}0`,
    id.replaceAll("-", ""),
    `{${id}}`,
    `urn:uuid:${id}`,
    id.replace("7b1e", "4b1e"),
    id.replace("8d2f", "cd2f"),
    `%20${id}`,
    `${id}%0A`,
    "%00",
    "a%2Fb",
    "..%2f..%2fhealthz",
    "a".repeat(4000)
  ].map((path) => gets(path, "path.id")),
  gets(`${id}?expand=1`, "query.expand"),
  gets("x?expand=1&expand=2&y", "path.id", "query.expand", "query.y"),
  { target: `${list}/${id}`, request: body, paths: ["body"] },
  { target: `${list}/x?y=1`, request: body, paths: ["path.id", "query.y", "body"] },
  ...["/healthz", "/readyz", "/problems", "/problems/not_ready"].flatMap((target): ReadonlyArray<Case> => [
    { target: `${target}?verbose=1`, paths: ["query.verbose"] },
    { target: `${target}?a=1&b=2&a=3`, paths: ["query.a", "query.b"] },
    { target: `${target}?__proto__=1`, paths: ["query.__proto__"] },
    { target, request: body, paths: ["body"] },
    { target, request: chunked, paths: ["body"] },
    { target: `${target}?verbose=1`, request: body, paths: ["query.verbose", "body"] }
  ])
]

layer(memoryGateway({ way: "both" }), { excludeTestServices: true })(
  "A request that does not fit its endpoint",
  (it) => {
    it.effect("is 422, and fields names each failure and nothing else", () =>
      Effect.gen(function*() {
        const { token } = yield* issue()
        const answers = yield* refuses(
          "invalid_request",
          cases.map(({ request, target }) => [target, { token, ...request }])
        )
        for (const [at, { problem }] of answers.entries()) {
          assert.sameMembers(problem.fields!.map(({ path }) => path), [...cases[at]!.paths], cases[at]!.target)
        }
      }))

    it.effect("gets a problem that names the parameters which the endpoint knows", () =>
      Effect.gen(function*() {
        const { token } = yield* issue()
        const answers = yield* refuses("invalid_request", [[`${list}?sort=asc`, { token }], ["/healthz?x=1", {}]])
        assert.deepStrictEqual(answers.map(({ problem }) => problem.fields!.map(({ message }) => message)), [
          [
            "Expected only parameters of this endpoint: state, type, created_after, created_before, idempotency_key, "
            + "page_size, page_token"
          ],
          ["Expected no parameters: this endpoint takes none"]
        ])
      }))

    it.effect("gets a problem that names the expectation, never the value: a value may be a misplaced secret", () =>
      Effect.gen(function*() {
        const { token } = yield* issue()
        const secret = "sk_live_51H8"
        const queries = [
          `type=${secret}-A&page_size=${secret}&state=${secret}&created_after=${secret}`,
          `page_token=${secret}&page_size=0`,
          `x=${secret}`,
          `idempotency_key=${secret}%20`,
          `idempotency_key=${secret}&idempotency_key=${secret}`,
          `idempotency_key=${secret}&page_size=0`
        ]
        const targets = [...queries.map((query) => `${list}?${query}`), `/healthz?x=${secret}`]
        for (const { answer } of yield* refuses("invalid_request", targets.map((target) => [target, { token }]))) {
          assert.notInclude(answer.text, secret)
        }
      }))

    it.effect("gets one failure for a parameter that comes several times, its limit if it may", () =>
      Effect.gen(function*() {
        const { token } = yield* issue()
        const answers = yield* refuses("invalid_request", [
          [`${list}?page_size=5&page_size=5`, { token }],
          [`${list}?${"state=accepted&".repeat(8)}`, { token }]
        ])
        assert.deepStrictEqual(answers.map(({ problem }) => problem.fields), [
          [{ path: "query.page_size", message: "Expected the parameter once" }],
          [{ path: "query.state", message: "Expected a value with a length of at most 7" }]
        ])
      }))

    it.effect("is 404 if a parameter of its path is empty: that is another path, with every method", () =>
      Effect.gen(function*() {
        const { token } = yield* issue()
        const paths = ["/v1/operations/", "/v1/operations/?state=accepted", "/problems/"]
        yield* refuses(
          "route_not_found",
          paths.flatMap((path) => ["GET", "POST", "OPTIONS"].map((method) => [path, { method, token }] as const))
        )
        yield* refuses("route_not_found", [["/v1/operations/", {}]])
      }))

    it.effect("gets at most 32 failures: a response must not grow with the request", () =>
      Effect.gen(function*() {
        const { token } = yield* issue()
        const many = Array.from({ length: 500 }, (_, n) => `x${n}=1`).join("&")
        const targets = [`${list}?${many}`, `${list}?${"state=x&".repeat(500)}`, `/healthz?${many}`]
        for (const { problem } of yield* refuses("invalid_request", targets.map((target) => [target, { token }]))) {
          assert.lengthOf(problem.fields!, 32)
          assert.strictEqual(problem.detail, "`fields` names the first 32 failures. There may be more.")
        }
      }))

    it.effect("gets the first 64 characters of an unknown name", () =>
      Effect.gen(function*() {
        for (const { problem } of yield* refuses("invalid_request", [[`/healthz?${"x".repeat(8000)}=1`, {}]])) {
          assert.deepStrictEqual(problem.fields!.map(({ path }) => path), [`query.${"x".repeat(64)}`])
          assert.isBelow(problem.detail.length, 200)
        }
      }))

    it.effect("is none of these, which fit", () =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        const holder = yield* issue()
        const operation = yield* accept(holder)
        const queries = [
          "",
          "state=accepted",
          "state=accepted&state=accepted&state=failed",
          "type=payment.refund_2",
          `type=${"a".repeat(64)}`,
          "page_size=1",
          "page_size=100",
          "created_after=2026-01-31T12:00:00Z&created_before=2026-01-31T12:00:00.123456789%2B05:30",
          "created_after=2024-02-29T23:59:59.9-23:59"
        ]
        const targets = [
          list,
          ...queries.map((query) => `${list}?${query}`),
          `${list}/${operation.id}`,
          `${list}/${operation.id}?`
        ]
        const { token } = holder
        for (const target of targets) assert.strictEqual((yield* send(target, { token })).status, 200, target)
        for (const target of [list, "/healthz"]) {
          assert.strictEqual((yield* send(target, { token, headers: { "content-length": "0" } })).status, 200)
        }
      }))
  }
)
