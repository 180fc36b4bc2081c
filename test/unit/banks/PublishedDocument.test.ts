/** The check against a published document finds each way in which a request or an answer can differ from it. */
import { assert, describe, it } from "@effect/vitest"
import { type Exchange, readDocument } from "../../fixtures/banks/PublishedDocument.ts"

const schema = { type: "object", additionalProperties: false, required: ["id"], properties: { id: { type: "string" } } }
const content = { "application/json": { schema: { $ref: "#/components/schemas/Payment" } } }

const document = readDocument({
  paths: {
    "/payments/{id}": {
      post: {
        parameters: [
          { $ref: "#/components/parameters/Key" } as never,
          { in: "query", name: "limit", schema: { type: "integer" } }
        ],
        requestBody: { required: true, content },
        responses: {
          201: { headers: { "X-Trace": { required: true, schema: { type: "string" } } }, content },
          429: {}
        }
      }
    }
  },
  components: {
    parameters: { Key: { in: "header", name: "X-Key", required: true, schema: { type: "string", maxLength: 3 } } },
    schemas: { Payment: schema }
  }
} as never, ["newer"])

const json = { "content-type": "application/json; charset=utf-8" }
const good: Exchange = {
  method: "POST",
  target: "/payments/1?limit=2&newer=x",
  request: { headers: { ...json, "x-key": "key" }, body: "{\"id\":\"1\"}" },
  answer: { status: 201, headers: { ...json, "x-trace": "1" }, body: "{\"id\":\"1\"}" }
}
const withRequest = (request: Partial<Exchange["request"]>) => ({ request: { ...good.request, ...request } })
const withAnswer = (answer: Partial<Exchange["answer"]>) => ({ answer: { ...good.answer, ...answer } })

describe("The check against a published document", () => {
  it.each<[what: string, change: Partial<Exchange>, problem: RegExp | null]>([
    ["accepts what is declared", {}, null],
    [
      "accepts an answer without a body, where none is declared",
      withAnswer({ status: 429, headers: {}, body: "" }),
      null
    ],
    ["finds another path", { target: "/refunds/1" }, /no such operation/],
    ["finds another method", { method: "GET" }, /no such operation/],
    ["finds an unknown query", { target: "/payments/1?page=2" }, /query page: it is not declared/],
    ["finds a query of another type", { target: "/payments/1?limit=two" }, /query limit: must be integer/],
    ["finds a missing header", withRequest({ headers: json }), /header X-Key: it is required/],
    [
      "finds a header that is too long",
      withRequest({ headers: { ...json, "x-key": "long" } }),
      /header X-Key: must NOT/
    ],
    ["finds a request without a body", withRequest({ body: "" }), /body of the request: it is required/],
    [
      "finds a request with another member",
      withRequest({ body: "{\"id\":\"1\",\"to\":\"2\"}" }),
      /request: must NOT have add/
    ],
    ["finds an undeclared status", withAnswer({ status: 404 }), /status 404 is not declared/],
    ["finds an answer without a header", withAnswer({ headers: json }), /header X-Trace: it is required/],
    ["finds an answer without a member", withAnswer({ body: "{}" }), /answer 201: body of the answer: must have/],
    [
      "finds an answer of another type",
      withAnswer({ headers: { "content-type": "text/html", "x-trace": "1" } }),
      /text\/html/
    ],
    ["finds a body where none is declared", withAnswer({ status: 429 }), /application\/json is not declared/]
  ])("%s", (_, change, problem) => {
    const problems = document.check({ ...good, ...change }).join("\n")
    if (problem === null) assert.strictEqual(problems, "")
    else assert.match(problems, problem)
  })
})
