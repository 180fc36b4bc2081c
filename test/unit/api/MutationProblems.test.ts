/**
 * The problems of mutation endpoints have the specified statuses and texts, and the header Idempotency-Key is read as
 * the draft says. Tables list every code and header.
 */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { OpenApi } from "effect/http-api"
import { Api } from "../../../src/api/Api.ts"
import { parseIdempotencyKey } from "../../../src/api/MutationEndpoint.ts"
import { type ProblemCode, problemKinds } from "../../../src/api/ProblemKinds.ts"
import { isProblem, makeProblem, problemClasses } from "../../../src/api/Problems.ts"
import type { RequestId } from "../../../src/domain/RequestId.ts"
import { problemJson } from "../../../src/server/gate/ProblemResponses.ts"
import { baseUrl, mutationProblemTable, problemTable } from "../../fixtures/http/HttpProblem.ts"

const codes = Object.keys(mutationProblemTable) as ReadonlyArray<keyof typeof mutationProblemTable>
const request = { id: "request-id-1" as RequestId, path: "/v1/payments" }

describe("The problems of mutation endpoints", () => {
  it("have the statuses of the Idempotency-Key draft, are never retryable, and share no code with the gateway's own problems", () => {
    for (const code of codes) {
      assert.notProperty(problemTable, code)
      assert.strictEqual(problemKinds[code].status, mutationProblemTable[code].status)
      assert.isFalse(problemKinds[code].retryable)
    }
  })

  it("do not appear in the API description of the gateway, whose endpoints raise none of them", () => {
    const document = JSON.stringify(OpenApi.fromApi(Api))
    for (const code of codes) assert.notInclude(document, code)
  })

  it.each(codes)("are complete for %s, and only the class of that problem describes them", (code) => {
    const problem = makeProblem(baseUrl, request, code)
    assert.isTrue(isProblem(problem))
    const body: unknown = JSON.parse(problemJson(problem))
    assert.deepInclude(body, {
      type: `${baseUrl}/problems/${code}`,
      status: mutationProblemTable[code].status,
      instance: "/v1/payments",
      code,
      fields: null,
      request_id: "request-id-1",
      submission_uncertain: false
    })
    const fitting = Object.entries(problemClasses).filter(([, Class]) =>
      Schema.decodeUnknownResult(Class as Schema.Codec<unknown, unknown>, { onExcessProperty: "error" })(body)._tag
        === "Success"
    )
    assert.deepStrictEqual(fitting.map(([name]) => name), [code])
  })

  it("and of the gateway are never uncertain, because no request sends anything upstream", () => {
    for (const code of Object.keys(problemKinds) as ReadonlyArray<ProblemCode>) {
      assert.isFalse(makeProblem(baseUrl, request, code).submission_uncertain, code)
    }
  })
})

describe("The Idempotency-Key header", () => {
  it.each([
    ["8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"],
    ["\"8e03978e-40d5-43e8-bc93-6894a57f9324\"", "8e03978e-40d5-43e8-bc93-6894a57f9324"],
    ["  order-17 ", "order-17"],
    ["ZGF0YQ==", "ZGF0YQ=="],
    ["\"a\\\"b\\\\c\"", "a\"b\\c"],
    ["\"a,b;c\"", "a,b;c"],
    ["k".repeat(255), "k".repeat(255)]
  ])("%j names a key, with or without quotes", (header, key) => {
    assert.strictEqual<string | null>(parseIdempotencyKey(header), key)
  })

  it.each([
    ["", "nothing"],
    ["\"\"", "an empty string"],
    ["a, b", "several headers, joined"],
    ["a,b", "a list"],
    ["\"a\", \"b\"", "a list of strings"],
    ["\"a\";expires=1", "parameters of a string"],
    ["a;b", "parameters of a token"],
    ["two words", "a space"],
    ["\"two words\"", "a space, quoted: no key of the ledger has one"],
    ["\"open", "a string without its end"],
    ["\"a\\n\"", "an escape that does not exist"],
    ["schlüssel", "letters beyond ASCII"],
    ["k".repeat(256), "more than 255 characters"]
  ])("%j names no key: %s", (header) => {
    assert.isNull(parseIdempotencyKey(header))
  })
})
