/**
 * A failed submission says that an attempt may be recorded if any attempt had no answer, or one with a 5xx. Both clients run over
 * scripted answers.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Clock, Effect, Redacted, Schema } from "effect"
import { FetchHttpClient } from "effect/http"
import { HttpApi, HttpApiGroup } from "effect/http-api"
import { makeClient, submit } from "../../../src/api/Client.ts"
import { mutationEndpoint } from "../../../src/api/MutationEndpoint.ts"
import { ConnectionError, ContractError } from "../../../src/client/ClientErrors.ts"
import {
  baseUrl,
  cut,
  lost,
  problem,
  type Reply,
  scripted,
  silent,
  text
} from "../../fixtures/client/ScriptedGateway.ts"
import { scriptedScene } from "../../fixtures/client/ScriptedScene.ts"
import { scriptedGateway, whileTimePasses } from "../../fixtures/client/TestTime.ts"

class Payments extends HttpApi.make("payments").add(
  HttpApiGroup.make("payments").add(
    mutationEndpoint("pay", "/v1/payments", { payload: Schema.Struct({ amount: Schema.String }) })
  )
) {}

const onFetch = async (replies: ReadonlyArray<Reply>): Promise<unknown> => {
  await using scene = scriptedScene()
  const { fetch } = scripted(scene, replies)
  const work = scene.makeClient(fetch).submit("/v1/payments", { key: "rent", payload: {} }).next()
  return await scene.until(work.then(() => null, (error: unknown) => error))
}

const onEffect = Effect.fnUntraced(function*(replies: ReadonlyArray<Reply>) {
  const { fetch } = yield* scriptedGateway(replies)
  const client = yield* makeClient(Payments, { baseUrl, accessToken: Redacted.make("token") })
  const pay = client.payments.pay({ headers: { "idempotency-key": "rent" }, payload: { amount: "1.00" } })
  return yield* whileTimePasses(Effect.flip(submit(pay).pipe(Effect.provideService(FetchHttpClient.Fetch, fetch))))
}, Effect.provide(FetchHttpClient.layer))

const refusals = [problem("invalid_token"), problem("limit_exceeded"), problem("idempotency_key_reused")]
const limited = problem("rate_limited", { "retry-after": "1" })

/** The attempts before a refusal, and whether one of them may be recorded. */
const attempts: ReadonlyArray<readonly [name: string, replies: ReadonlyArray<Reply>, isUncertain: boolean]> = [
  ["no other attempt", [], false],
  ["an attempt beyond the quota", [limited], false],
  ["a lost connection", [lost], true],
  ["an answer that ends early", [cut(202)], true],
  ["no answer", [silent], true],
  ["a store that did not answer", [problem("service_unavailable")], true],
  ["a proxy without a gateway", [text(502, "<html>")], true],
  ["a lost connection and an attempt beyond the quota", [lost, limited], true]
]

const says = /Whether the request was recorded is unknown: repeat it with the same key alone/

const assertMarked = (error: unknown, isUncertain: boolean) => {
  const { message, retryable, submission_uncertain } = error as {
    readonly message: string
    readonly retryable?: boolean
    readonly submission_uncertain: boolean
  }
  if (submission_uncertain) assert.notStrictEqual(retryable, true, message)
  assert.strictEqual(submission_uncertain, isUncertain, message)
  assert.strictEqual(says.test(message), isUncertain, message)
}

describe("A refused submission, after", () => {
  it.effect.each(attempts)(
    "%s, says whether an attempt may be recorded",
    ([, before, isUncertain]) =>
      Effect.gen(function*() {
        for (const refusal of refusals) {
          const error = yield* onEffect([...before, refusal])
          assertMarked(error, isUncertain)
          assert.property(error, "_tag")
        }
      })
  )

  it.each(attempts)("%s, says so in the client on fetch", async (_, before, isUncertain) => {
    for (const refusal of refusals) assertMarked(await onFetch([...before, refusal]), isUncertain)
  })
})

describe("A submission without a refusal", () => {
  it("says that it may be recorded in each error of the client on fetch", async () => {
    assertMarked(await onFetch([problem("internal_error")]), true)
    const failures = [await onFetch([lost]), await onFetch([text(404, "no")])]
    for (const error of failures) assertMarked(error, true)
    assert.instanceOf(failures[0], ConnectionError)
    assert.instanceOf(failures[1], ContractError)
  })

  it.effect("says so in a problem of the client of Effect", () =>
    Effect.gen(function*() {
      assertMarked(yield* onEffect([problem("internal_error")]), true)
    }))

  it.effect("ends in the client of Effect although no answer ever comes", () =>
    Effect.gen(function*() {
      const error = yield* onEffect([silent])
      assert.isTrue(Cause.isTimeoutError(error))
      assert.match(error.message, says)
      assert.isAtMost(yield* Clock.currentTimeMillis, 91_000)
    }))
})
