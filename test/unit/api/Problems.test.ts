/**
 * The problem catalogue has the codes, statuses and texts of the specification. The tests compare every entry with a
 * table.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { type ProblemCode, type ProblemKind, problemKinds } from "../../../src/api/ProblemKinds.ts"
import { makeProblem, type Problem, problemClasses, problems } from "../../../src/api/Problems.ts"
import { isRequestId, type RequestId } from "../../../src/domain/RequestId.ts"
import { problemJson } from "../../../src/server/gate/ProblemResponses.ts"
import {
  assertProblem,
  baseUrl,
  type Code,
  mutationProblemTable,
  problemTable
} from "../../fixtures/http/HttpProblem.ts"

const codes = Object.keys(problemKinds) as ReadonlyArray<ProblemCode>
const table = { ...problemTable, ...mutationProblemTable }

describe("The problem catalogue", () => {
  it("has the codes of the specification, with their status and whether a repetition can succeed", () => {
    const actual = Object.fromEntries(codes.map((code) => {
      const { retryable, status }: ProblemKind = problemKinds[code]
      return [code, { status, retryable }]
    }))
    assert.deepStrictEqual<unknown>(actual, table)
  })

  it("warns of a new Idempotency-Key where a mutation may be recorded although a problem answers it", () => {
    for (const code of codes) {
      const { action, retryable, status }: ProblemKind = problemKinds[code]
      const isAnswerToMutation = (retryable || status >= 500) && code !== "not_ready"
      assert.strictEqual(action.includes("A POST keeps its Idempotency-Key"), isAnswerToMutation, code)
    }
  })

  it.each(Object.keys(problemTable) as ReadonlyArray<Code>)("makes a complete problem of %s", (code) => {
    const id = "request-id-1" as RequestId
    assert.isTrue(isRequestId(id))
    const fields = code === "invalid_request" || code === "invalid_page_token"
      ? { fields: [{ path: "body", message: "Expected no body" }] }
      : {}
    const problem = makeProblem(baseUrl, { id, path: "/v1/operations" }, code, fields)
    const { status } = problemTable[code]
    const challenge = `Bearer realm="x", resource_metadata="${baseUrl}/.well-known/oauth-protected-resource"`
    assertProblem({
      status,
      headerLines: [],
      headers: {
        "content-type": "application/problem+json",
        "cache-control": "no-store",
        "x-request-id": id,
        ...status === 401 || status === 403 ? { "www-authenticate": challenge } : {},
        ...status === 405 ? { allow: "GET" } : {},
        ...status === 429 || status === 503 ? { "retry-after": "1" } : {}
      },
      text: problemJson(problem)
    })
  })
})

describe("The tag of a problem", () => {
  const request = { id: "request-id-1" as RequestId, path: "/v1/payments" }

  /** The types of these handlers are part of the test: each tag selects one class. */
  const handle = (problem: Problem) =>
    Effect.fail(problem).pipe(
      Effect.catchTag("IdempotencyKeyReused", ({ code }) =>
        Effect.succeed(`reused: ${code satisfies "idempotency_key_reused"}`)),
      Effect.catchTags({
        Unauthorized: ({ status }) =>
          Effect.succeed(`unauthorized: ${status satisfies 401}`),
        ServiceUnavailable: ({ status }) => Effect.succeed(`unavailable: ${status satisfies 503}`)
      }),
      Effect.catch(({ _tag }) => Effect.succeed(_tag))
    )

  it.effect("selects the class of a created problem", () =>
    Effect.gen(function*() {
      const made = (code: ProblemCode) => handle(makeProblem(baseUrl, request, code))
      assert.strictEqual(yield* made("idempotency_key_reused"), "reused: idempotency_key_reused")
      assert.strictEqual(yield* made("grant_revoked"), "unauthorized: 401")
      assert.strictEqual(yield* made("not_ready"), "unavailable: 503")
      assert.strictEqual(yield* made("invalid_request"), "UnprocessableContent")
    }))

  it.effect("selects the class of a problem that a client decoded", () =>
    Effect.gen(function*() {
      const body: unknown = JSON.parse(problemJson(makeProblem(baseUrl, request, "idempotency_key_reused")))
      const [declared] = problems("idempotency_key_reused")
      const decoded = yield* Schema.decodeUnknownEffect(declared!)(body)
      assert.strictEqual(yield* handle(decoded), "reused: idempotency_key_reused")
    }))

  it.effect("is of a declared code alone: another code of the class is neither written nor read", () =>
    Effect.gen(function*() {
      const [declared] = problems("operation_not_found")
      const other = makeProblem(baseUrl, request, "route_not_found")
      assert.isTrue(Schema.is(declared!)(makeProblem(baseUrl, request, "operation_not_found")))
      // @ts-expect-error -- an endpoint that declares one code of a class may not fail with another one
      const written = yield* Effect.flip(Schema.encodeEffect(declared!)(other))
      const read = yield* Effect.flip(Schema.decodeUnknownEffect(declared!)(JSON.parse(problemJson(other))))
      for (const error of [written, read]) assert.include(error.message, "operation_not_found")
    }))

  it.effect("is the name of the class, and no member of the body: the JSON is closed", () =>
    Effect.gen(function*() {
      for (const code of codes) {
        const problem = makeProblem(baseUrl, request, code)
        assert.strictEqual(problem._tag, problemClasses[code].identifier)
        assert.notInclude(problemJson(problem), "_tag")
        assert.notProperty(JSON.parse(JSON.stringify(problem)), "_tag")
        // The cast: the code determines the class, but TypeScript cannot infer that.
        const Class = problemClasses[code] as unknown as Schema.Codec<Problem, object>
        assert.deepStrictEqual(yield* Schema.encodeEffect(Class)(problem), JSON.parse(problemJson(problem)))
      }
    }))
})
