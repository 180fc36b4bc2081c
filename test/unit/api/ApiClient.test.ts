/**
 * A financial request that is repeated stays the same request. The tests call an endpoint over a scripted HTTP client,
 * under a test clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Clock, Effect, Redacted, Ref, Schema } from "effect"
import { HttpClient, HttpClientError, HttpClientResponse } from "effect/http"
import { HttpApi, HttpApiGroup } from "effect/http-api"
import { makeClient, submit } from "../../../src/api/Client.ts"
import { mutationEndpoint } from "../../../src/api/MutationEndpoint.ts"
import type { ProblemCode } from "../../../src/api/ProblemKinds.ts"
import { makeProblem } from "../../../src/api/Problems.ts"
import type { RequestId } from "../../../src/domain/RequestId.ts"
import { problemJson } from "../../../src/server/gate/ProblemResponses.ts"
import { whileTimePasses } from "../../fixtures/client/TestTime.ts"

class Payments extends HttpApi.make("payments").add(
  HttpApiGroup.make("payments").add(
    mutationEndpoint("pay", "/v1/payments", { payload: Schema.Struct({ amount: Schema.String }) })
  )
) {}

const id = "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"

const accepted = () =>
  new Response(
    JSON.stringify({
      id,
      type: "payment",
      state: "accepted",
      terminal: false,
      submission_uncertain: false,
      under_review: false,
      revision: 1,
      created_at: "2026-01-31T12:00:00.000Z",
      updated_at: "2026-01-31T12:00:00.000Z",
      completed_at: null,
      failure: null
    }),
    {
      status: 202,
      headers: { "content-type": "application/json", location: `https://pay.test/v1/operations/${id}` }
    }
  )

const refused = (code: ProblemCode, headers: Readonly<Record<string, string>> = {}) => () => {
  const request = { id: "request-id-1" as RequestId, path: "/v1/payments", scheme: "Bearer" } as const
  const problem = makeProblem("https://pay.test", request, code)
  return new Response(problemJson(problem), {
    status: problem.status,
    headers: { "content-type": "application/problem+json", ...headers }
  })
}

const lost = "lost" as const

/** A client whose answers are scripted, and the requests that it sent: key, token and body. */
const scripted = Effect.fnUntraced(function*(
  answers: ReadonlyArray<(() => Response) | typeof lost>,
  token = "token"
) {
  const sent = yield* Ref.make<ReadonlyArray<unknown>>([])
  const httpClient = HttpClient.make((request) =>
    Effect.gen(function*() {
      const { body, headers, url } = request
      const { length } = yield* Ref.getAndUpdate(sent, (before) => [...before, {
        url,
        key: headers["idempotency-key"],
        token: headers["authorization"],
        body: body._tag === "Uint8Array" ? new TextDecoder().decode(body.body) : body._tag
      }])
      const answer = answers[Math.min(length, answers.length - 1)]!
      if (answer === lost) {
        return yield* new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request }) })
      }
      return HttpClientResponse.fromWeb(request, answer())
    })
  )
  const client = yield* makeClient(Payments, {
    baseUrl: "https://pay.test",
    accessToken: Redacted.make(token)
  }).pipe(Effect.provideService(HttpClient.HttpClient, httpClient))
  return { pay: client.payments.pay({ headers: { "idempotency-key": "rent" }, payload: { amount: "1.00" } }), sent }
})

const request = {
  url: "https://pay.test/v1/payments",
  key: "rent",
  token: "Bearer token",
  body: JSON.stringify({ amount: "1.00" })
}

describe("A financial request of the client", () => {
  it.effect("carries the token and the key, and gives the operation with its URL", () =>
    Effect.gen(function*() {
      const { pay, sent } = yield* scripted([accepted])
      const { body, headers } = yield* pay
      assert.deepStrictEqual([body.id, headers.location], [id, `https://pay.test/v1/operations/${id}`])
      assert.deepStrictEqual(yield* Ref.get(sent), [request])
    }))

  it.effect("is not sent with a token that no header can carry: the platform would quote it", () =>
    Effect.gen(function*() {
      for (const token of ["secret\ntoken", "secret-tökén", ""]) {
        const { pay, sent } = yield* scripted([accepted], token)
        const cause = yield* Effect.flip(Effect.sandbox(submit(pay)))
        assert.include(Cause.pretty(cause), "the access token is empty, or has characters that no header can carry")
        assert.notInclude(Cause.pretty(cause), "secret")
        assert.lengthOf(yield* Ref.get(sent), 0)
      }
    }))

  it.effect("is repeated as the same request after a retryable problem, when Retry-After has passed", () =>
    Effect.gen(function*() {
      const { pay, sent } = yield* scripted([refused("service_unavailable", { "retry-after": "7" }), accepted])
      const { body } = yield* whileTimePasses(submit(pay))
      assert.strictEqual(body.id, id)
      assert.isAtLeast(yield* Clock.currentTimeMillis, 7000)
      assert.deepStrictEqual(yield* Ref.get(sent), [request, request])
    }))

  it.effect("fails with the last problem when the time for repetitions is over", () =>
    Effect.gen(function*() {
      const { pay, sent } = yield* scripted([refused("rate_limited", { "retry-after": "10" })])
      const error = yield* whileTimePasses(Effect.flip(submit(pay, { within: "25 seconds" })))
      assert.strictEqual(error._tag, "TooManyRequests")
      assert.isAtMost(yield* Clock.currentTimeMillis, 25_000)
      assert.lengthOf(yield* Ref.get(sent), 3)
    }))
})
