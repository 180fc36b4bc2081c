/**
 * No client follows a redirect: it would send the work, or the read, to another server. Two servers of `node:http` play the gateway and
 * the place that it redirects to.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Redacted, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { GatewayClient, makeClient, submit } from "../../../src/api/Client.ts"
import { ContractError, createClient } from "../../../src/client/FetchClient.ts"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import { OperationId } from "../../../src/domain/Operation.ts"
import { id } from "../../fixtures/client/ScriptedGateway.ts"
import { serving } from "../../fixtures/http/listening.ts"
import { TeamApi } from "../../fixtures/http/TeamPayments.ts"

/** A gateway that redirects each request, what it was asked, and what arrived elsewhere. */
const redirecting = Effect.fnUntraced(function*(status: number) {
  const asked: Array<string> = []
  const arrived: Array<string> = []
  const elsewhere = yield* serving((request, response) => {
    arrived.push(`${request.method} ${request.url}`)
    response.writeHead(404).end()
  })
  const baseUrl = yield* serving((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    response.writeHead(status, { location: `${elsewhere}${request.url}` }).end()
  })
  return { baseUrl, asked, arrived }
})

const statuses = [301, 302, 303, 307, 308]

describe("A redirect", () => {
  it.live.each(statuses)(
    "is never followed by the client on fetch, and fails at once: %s",
    (status) =>
      Effect.gen(function*() {
        const { arrived, asked, baseUrl } = yield* redirecting(status)
        const client = createClient({ baseUrl, accessToken: "secret-token" })
        const calls = [
          () => client.submit("/v1/payments", { key: "key", payload: {} }).next(),
          () => client.get(id),
          () => client.settled(id)
        ]
        for (const call of calls) {
          const error = yield* Effect.promise(() => call().then(() => null, (error: unknown) => error))
          assert.instanceOf(error, ContractError)
          assert.include(error.message, ": a redirect, which is not followed. Check the base URL")
        }
        assert.deepStrictEqual([arrived, asked.length], [[], calls.length])
      })
  )

  it.live.each(statuses)(
    "is never followed by the Effect client, and fails at once: %s",
    (status) =>
      Effect.gen(function*() {
        const { arrived, asked, baseUrl } = yield* redirecting(status)
        const options = { baseUrl, accessToken: Redacted.make("secret-token") }
        const context = yield* Layer.build(Layer.provideMerge(GatewayClient.layer(options), FetchHttpClient.layer))
        const { payments } = yield* Effect.provide(makeClient(TeamApi, options), context)
        const client = yield* Effect.provide(GatewayClient, context)
        const operation = OperationId.make(id)
        const headers = { "idempotency-key": IdempotencyKey.make("key") }
        const calls = [
          submit(payments.pay({ headers, payload: { amount: "1.00" } })),
          client.get(operation),
          Stream.runDrain(client.follow(operation))
        ]
        for (const call of calls) {
          const exit = yield* Effect.exit(call as Effect.Effect<unknown, unknown>)
          assert(Exit.isFailure(exit))
          assert.include(Cause.pretty(exit.cause), String(status))
        }
        assert.deepStrictEqual([arrived, asked.length], [[], calls.length])
      })
  )
})
