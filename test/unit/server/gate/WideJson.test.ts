/**
 * Wide or deep JSON costs no more than its limits, a body is decoded once, and an answer names 32 failures at most. The tests count how
 * often a schema looks at a value, and compare the check of the limits with a recursive one.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { HttpRouter } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import * as fc from "fast-check"
import { Gate } from "../../../../src/api/Middleware.ts"
import { mutationEndpoint } from "../../../../src/api/MutationEndpoint.ts"
import { bodyLimits, findExcess, type JsonLimits } from "../../../../src/domain/JsonLimits.ts"
import { payloadDecoders } from "../../../../src/domain/PayloadSchemas.ts"
import {
  applicationGate,
  applicationServices,
  fixedToken,
  operationWith,
  webHandler,
  withServices
} from "../../../fixtures/http/HttpFixed.ts"
import { assertProblemOf, baseUrl, type Problem } from "../../../fixtures/http/HttpProblem.ts"
import { headersOf, legacy, modern, open, post, requestOf } from "../../../fixtures/mcp/HttpMcp.ts"

const wideObject = (members: number) =>
  Object.fromEntries(Array.from({ length: members }, (_, index) => [`member${index}`, 1]))

const wideArray = (items: number) => Array.from({ length: items }, () => 1)

/** Arrays in arrays, of this many levels. */
const deepArray = (levels: number): Schema.Json => levels === 1 ? [] : [deepArray(levels - 1)]

/** Bodies beyond one limit each, with the place and the message that name it. */
const excessive: ReadonlyArray<readonly [body: Schema.Json, path: string, message: string]> = [
  [{ amounts: ["1"], ...wideObject(256) }, "body", "Expected at most 256 members"],
  [{ amounts: [wideObject(257)] }, "body.amounts.0", "Expected at most 256 members"],
  [{ amounts: wideArray(1025) }, "body.amounts", "Expected at most 1024 items"],
  [{ amounts: Array.from({ length: 8 }, () => wideArray(512)) }, "body", "Expected at most 4096 values"],
  [{ amounts: deepArray(64) }, `body.amounts${".0".repeat(63)}`, "Expected at most 64 levels of arrays and objects"]
]

/** The same of a body with two members of one name. */
const repeated = [
  `{"amounts":["1"],"\\u0061mounts":["9"]}`,
  "body.amounts",
  "Expected one member of this name"
] as const

describe("The limits of JSON", () => {
  const small: JsonLimits = { levels: 3, members: 3, items: 4, values: 12 }

  /** The largest of each in a value. */
  const sizeOf = (value: unknown): JsonLimits => {
    if (typeof value !== "object" || value === null) return { levels: 0, members: 0, items: 0, values: 1 }
    const inside = Object.values(value).map(sizeOf)
    const most = (of: keyof JsonLimits) => Math.max(0, ...inside.map((size) => size[of]))
    const size = inside.length
    return {
      levels: 1 + most("levels"),
      members: Math.max(Array.isArray(value) ? 0 : size, most("members")),
      items: Math.max(Array.isArray(value) ? size : 0, most("items")),
      values: 1 + inside.reduce((sum, { values }) => sum + values, 0)
    }
  }

  it("refuse exactly the values that are beyond one of them, with any spaces", () => {
    let refused = 0
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom("", "\t", "  "), (value, indent) => {
        const size = sizeOf(value)
        const isBeyond = (["levels", "members", "items", "values"] as const).some((name) => size[name] > small[name])
        const excess = findExcess(JSON.stringify(value, null, indent), small)
        assert.strictEqual(excess !== null, isBeyond)
        // The path leads to a value.
        if (excess !== null) {
          let at = value as unknown
          for (const name of excess.path) at = (at as Record<string, unknown>)[name]
          assert.notStrictEqual(at, undefined)
        }
        if (isBeyond) refused++
      }),
      { numRuns: 2000 }
    )
    assert.isAbove(refused, 100)
  })

  it("allow 64 levels, 256 members, 1024 items and 4096 values, and name what is beyond", () => {
    const full = [wideArray(1023), wideArray(1023), wideArray(1023), wideArray(1022)]
    for (const value of [deepArray(64), wideObject(256), wideArray(1024), full]) {
      assert.isNull(findExcess(JSON.stringify(value), bodyLimits))
    }
    for (const [body, path, message] of excessive) {
      const excess = findExcess(JSON.stringify(body), bodyLimits)
      assert.deepStrictEqual([["body", ...excess!.path].join("."), excess!.message], [path, message])
    }
  })

  it("refuse exactly the objects with two members of one name, however it is escaped", () => {
    type Tree = string | ReadonlyArray<Tree> | { readonly members: ReadonlyArray<readonly [string, Tree]> }
    const escaped = (text: string) =>
      `"${[...text].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")}"`
    const quoted = fc.constantFrom("a", "b", "A", "\"", "\\", "{:", "__proto__", "é").chain((name) =>
      fc.constantFrom(JSON.stringify(name), escaped(name))
    )
    const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
      tree: fc.oneof(
        { maxDepth: 4 },
        quoted,
        fc.array(tie("tree"), { maxLength: 3 }),
        fc.record({ members: fc.array(fc.tuple(quoted, tie("tree")), { maxLength: 4 }) })
      )
    }))
    const textOf = (value: Tree): string => {
      if (typeof value === "string") return value
      return "members" in value
        ? `{${value.members.map(([name, member]) => `${name} :${textOf(member)}`).join(" , ")}}`
        : `[${value.map(textOf).join(",")}]`
    }
    const hasTwice = (value: Tree): boolean => {
      if (typeof value === "string") return false
      if (!("members" in value)) return value.some(hasTwice)
      const names = new Set(value.members.map(([name]) => JSON.parse(name)))
      return names.size < value.members.length || value.members.some(([, member]) => hasTwice(member))
    }
    let refused = 0
    fc.assert(
      fc.property(tree, (value) => {
        const text = textOf(value)
        const excess = findExcess(text, bodyLimits)
        assert.strictEqual(excess !== null, hasTwice(value), text)
        assert.doesNotThrow(() => JSON.parse(text) as unknown)
        if (excess !== null) refused++
      }),
      { numRuns: 2000 }
    )
    assert.isAbove(refused, 100)
  })

  it("do not count what stands in strings", () => {
    const quoted = { "[{\\\",:": "[[[[,,,,::::\\", "\\": ["\"", "\\\""] }
    assert.isNull(findExcess(JSON.stringify(quoted), small))
    assert.deepStrictEqual(findExcess(JSON.stringify({ "a\"]": [1, 2, 3, 4, 5] }), small)?.path, ["a\"]"])
  })

  it("have no answer, and end, for text that is no JSON", () => {
    const texts = ["", "\"", "\"\\", "]]]]", "}{", ":::", ",,,,,,,", "{\"a", "[\"\\\"", "\\\"".repeat(30_000)]
    for (const text of texts) assert.isNull(findExcess(text, small), text.slice(0, 20))
    assert.isNotNull(findExcess("[".repeat(1_000_000), bodyLimits))
    assert.isNotNull(findExcess("{:::::::", small))
  })
})

/** Counts how often a schema looks at a value. */
const counting = () => {
  let looks = 0
  const isDigits = (value: string) => {
    looks++
    return /^\d+$/.test(value)
  }
  return { Digits: Schema.String.check(Schema.makeFilter(isDigits, { expected: "digits" })), looks: () => looks }
}

it.effect("A payload of a provider is decoded once, and 32 failures are named", () =>
  Effect.gen(function*() {
    const { Digits, looks } = counting()
    const decode = payloadDecoders({ payment: Schema.Array(Digits) }).get("payment")!
    assert.lengthOf(yield* Effect.flip(decode(Array.from({ length: 1000 }, () => "x"))), 32)
    assert.strictEqual(looks(), 1000)
  }))

/** Endpoints that take amounts: one that accepts financial requests, and one of an application. */
const makePosting = Effect.gen(function*() {
  const { Digits, looks } = counting()
  const payload = Schema.Struct({ amounts: Schema.Array(Digits) })
  class TeamApi extends HttpApi.make("team").add(
    HttpApiGroup.make("payments")
      .add(mutationEndpoint("pay", "/v1/payments", { payload }))
      .add(HttpApiEndpoint.post("own", "/v1/own", { payload, success: Schema.String }).middleware(Gate))
  ) {}
  const Team = HttpApiBuilder.group(TeamApi, "payments", (handlers) =>
    handlers
      .handle("pay", () =>
        Effect.succeed(HttpApiSchema.withHeaders({ body: operationWith(), headers: { location: baseUrl } })))
      .handle("own", () =>
        Effect.succeed("taken")))
  const routes = HttpApiBuilder.layer(TeamApi).pipe(
    Layer.provide(Team),
    Layer.provide(applicationGate),
    Layer.provideMerge(NodeHttpServer.layerHttpServices),
    Layer.provideMerge(applicationServices())
  )
  const handler = yield* webHandler(() => HttpRouter.toWebHandler(routes, { disableLogger: true }))
  const send = (path: string, body: Schema.Json) => sendText(path, JSON.stringify(body))
  const sendText = (path: string, body: string) =>
    Effect.promise(async () => {
      const response = await handler(
        new Request(`${baseUrl}${path}`, {
          method: "POST",
          body,
          headers: {
            "content-type": "application/json",
            "idempotency-key": "key-1",
            authorization: `Bearer ${fixedToken}`
          }
        })
      )
      return { status: response.status, problem: await response.json() as Problem }
    })
  return { send, sendText, looks }
})

describe("An endpoint", () => {
  it.live.each(["/v1/payments", "/v1/own"])(
    "refuses a body beyond the limits before a schema sees it: %s",
    (path) =>
      Effect.gen(function*() {
        const { looks, send, sendText } = yield* makePosting
        const texts = excessive.map(([body, ...named]) => [JSON.stringify(body), ...named] as const)
        for (const [body, at, message] of [...texts, repeated]) {
          const { problem, status } = yield* sendText(path, body)
          assert.deepStrictEqual([status, problem.code, problem.fields], [422, "invalid_request", [{
            path: at,
            message
          }]])
        }
        assert.strictEqual(looks(), 0)
        const { status } = yield* send(path, { amounts: Array.from({ length: 1024 }, () => "1") })
        assert.isBelow(status, 300)
        assert.strictEqual(looks(), 1024)
      })
  )

  it.live("names 32 members of an invalid body, which it decodes once", () =>
    Effect.gen(function*() {
      const { looks, send } = yield* makePosting
      const { problem, status } = yield* send("/v1/payments", { amounts: Array.from({ length: 1000 }, () => "x") })
      assert.strictEqual(status, 422)
      assert.deepStrictEqual(
        problem.fields!.map(({ path }) => path),
        Array.from({ length: 32 }, (_, index) => `body.amounts.${index}`)
      )
      assert.strictEqual(looks(), 1000)
      const { problem: unknown } = yield* send("/v1/payments", wideObject(256))
      assert.lengthOf(unknown.fields!, 32)
    }))

  it.live.each([legacy, modern])(
    "for agents refuses a message beyond the limits: %s",
    (version) =>
      withServices({}, ({ port }) =>
        Effect.gen(function*() {
          for (const args of [wideObject(257), { state: wideArray(1025) }, { a: Array(8).fill(wideArray(512)) }]) {
            const call = requestOf(version, 1, "tools/call", { name: "get_operation", arguments: args })
            const answer = yield* Effect.promise(() => post(port, fixedToken, call))
            const [field] = assertProblemOf(answer, "invalid_request").fields!
            assert.match(field!.path, /^body(?:\.params|$)/)
            assert.match(field!.message, /^Expected at most \d+ (?:members|items|values)$/)
          }
          const call = requestOf(version, 1, "tools/call", { name: "get_operation", arguments: {} })
          const body = JSON.stringify(call).replace(`"arguments":{}`, `"arguments":{"id":1,"\\u0069d":2}`)
          const answer = yield* Effect.promise(() =>
            open(port, { body, headers: { ...headersOf(call), authorization: `Bearer ${fixedToken}` } }).complete
          )
          assert.deepStrictEqual(assertProblemOf(answer, "invalid_request").fields, [{
            path: "body.params.arguments.id",
            message: "Expected one member of this name"
          }])
        }))
  )
})
