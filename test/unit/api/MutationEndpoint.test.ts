/**
 * An endpoint that `mutationEndpoint` declares has the whole contract of mutation endpoints. The tests read its
 * declaration and its OpenAPI document.
 */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { HttpApi, HttpApiGroup, OpenApi } from "effect/http-api"
import { Api } from "../../../src/api/Api.ts"
import { Gate } from "../../../src/api/Middleware.ts"
import { mutationEndpoint, MutationRequest } from "../../../src/api/MutationEndpoint.ts"
import type { ProblemCode } from "../../../src/api/ProblemKinds.ts"
import { problems } from "../../../src/api/Problems.ts"
import { documentedApi } from "../../../src/server/Documentation.ts"

const payload = Schema.Struct({ amount: Schema.String })

const pay = mutationEndpoint("pay", "/v1/accounts/:account/payments", {
  params: { account: Schema.String },
  payload,
  errors: problems("change_token_expired"),
  summary: "Pay",
  description: "Accepts a payment."
})

class Payments extends HttpApi.make("payments").add(HttpApiGroup.make("payments").add(pay)) {}

const post = () => {
  const document = JSON.parse(JSON.stringify(OpenApi.fromApi(documentedApi([Payments])))) as OpenApi.OpenAPISpec
  return document.paths["/v1/accounts/{account}/payments"]!.post!
}

/** The codes of the example problems, by status. */
const codesOf = (operation: OpenApi.OpenAPISpecOperation) =>
  Object.fromEntries(
    Object.entries(operation.responses).map(([status, { content }]) => [
      status,
      Object.keys((content?.["application/problem+json"] as { readonly examples?: object } | undefined)?.examples ?? {})
    ])
  )

describe("A declared mutation endpoint", () => {
  it("has the gate of the gateway's endpoints, and behind it MutationRequest", () => {
    assert.deepStrictEqual<ReadonlyArray<unknown>>(
      [...pay.middlewares],
      [MutationRequest, Gate]
    )
    assert.deepStrictEqual<ReadonlyArray<unknown>>(
      [...Api.groups.operations.endpoints.get.middlewares],
      [Gate]
    )
  })

  it("documents every problem that it answers with, and those of its handler", () => {
    const refusals: Readonly<Record<string, ReadonlyArray<ProblemCode>>> = {
      202: [],
      400: ["idempotency_key_required", "malformed_request"],
      401: [
        "grant_revoked",
        "client_inactive",
        "missing_credentials",
        "invalid_token",
        "invalid_dpop_proof",
        "use_dpop_nonce"
      ],
      403: [
        "insufficient_scope",
        "provider_disconnected",
        "limit_exceeded",
        "payee_not_allowed",
        "operation_not_covered",
        "terms_required"
      ],
      406: ["not_acceptable"],
      408: ["request_timeout"],
      410: ["change_token_expired"],
      413: ["payload_too_large"],
      414: ["uri_too_long"],
      415: ["unsupported_media_type"],
      422: ["idempotency_key_reused", "invalid_request"],
      429: ["rate_limited"],
      500: ["internal_error", "response_contract_failed"],
      503: ["service_unavailable", "authorization_unavailable"]
    }
    assert.deepStrictEqual<unknown>(codesOf(post()), refusals)
  })

  it("documents its headers: the key and the request id, and those of each answer", () => {
    const { parameters, responses } = post()
    const required = parameters.filter(({ in: place }) => place === "header").map((header) => [
      header.name,
      header.required
    ])
    assert.deepStrictEqual(required, [["Idempotency-Key", true], ["X-Request-Id", false]])
    interface Answer {
      readonly headers?: Readonly<Record<string, { readonly required: boolean }>>
    }
    const answers: Readonly<Record<string, Answer>> = responses
    const namesOf = (status: string) => Object.keys(answers[status]?.headers ?? {})
    assert.sameMembers(namesOf("202"), [
      "Location",
      "Retry-After",
      "Idempotent-Replayed",
      "X-Request-Id",
      "RateLimit",
      "RateLimit-Policy"
    ])
    assert.isTrue(answers["202"]?.headers?.["Location"]?.required)
    assert.includeMembers(namesOf("401"), ["WWW-Authenticate", "X-Request-Id"])
    assert.includeMembers(namesOf("503"), ["Retry-After", "X-Request-Id"])
  })

  it("documents its id, summary, security and an accepted operation as example", () => {
    const operation = post()
    assert.deepInclude(operation, { operationId: "pay", summary: "Pay", description: "Accepts a payment." })
    assert.deepStrictEqual(operation.security, [{ bearer: [] }, { dpop: [] }])
    // The cast: the type of OpenAPI documents in Effect lacks `example`.
    const { example } = operation.responses["202"]!.content!["application/json"] as unknown as {
      readonly example: object
    }
    assert.deepInclude(example, { state: "accepted", submission_uncertain: false, terminal: false })
  })
})
