/**
 * GET /v1/operations/{id} shows exactly the public form of an operation, with caching headers and Retry-After. The
 * tests read every state from a gateway on PostgreSQL.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import type { OperationState } from "../../../src/domain/Operation.ts"
import { fixedId, fixedToken, operationWith, withServices } from "../../fixtures/HttpFixed.ts"
import { Gateway, postgresGateway } from "../../fixtures/HttpGateway.ts"
import { accept, acceptIn, issue, move } from "../../fixtures/HttpScene.ts"
import { json } from "../../fixtures/HttpWire.ts"
import { pathTo } from "../../fixtures/Ledger.ts"

const states = Object.keys(pathTo) as ReadonlyArray<OperationState>
const terminal: ReadonlyArray<OperationState> = ["succeeded", "failed", "cancelled"]

const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

layer(postgresGateway(), { excludeTestServices: true })("GET /v1/operations/{id}", (it) => {
  it.effect.each(states)(
    "is 200 with exactly the public form, also of an operation that is %s",
    (state) =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        const holder = yield* issue()
        const operation = yield* acceptIn(holder, state)
        const answer = yield* send(`/v1/operations/${operation.id}`, { token: holder.token })
        assert.strictEqual(answer.status, 200)
        const body = json(answer) as Record<string, unknown>
        const isTerminal = terminal.includes(state)
        assert.deepStrictEqual(body, {
          id: operation.id,
          type: "payment",
          state,
          terminal: isTerminal,
          submission_uncertain: state === "indeterminate",
          under_review: false,
          revision: pathTo[state].length + 1,
          created_at: DateTime.formatIso(operation.created_at),
          updated_at: DateTime.formatIso(operation.updated_at),
          completed_at: isTerminal ? DateTime.formatIso(operation.updated_at) : null,
          failure: state === "failed" ? { code: "declined", message: "The bank declined." } : null
        })
        assert.match(body["created_at"] as string, timestamp)
      })
  )

  it.effect("forbids storage in shared caches and use without revalidation, and varies with the credential", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const holder = yield* issue()
      const { id } = yield* accept(holder)
      const varyOf = {
        [`/v1/operations/${id}`]: "Accept, Authorization, Prefer",
        "/v1/operations/changes": "Accept, Authorization, Prefer",
        "/v1/operations": "Accept, Authorization"
      }
      for (const [target, vary] of Object.entries(varyOf)) {
        const { headers } = yield* send(target, { token: holder.token })
        assert.strictEqual(headers["cache-control"], "private, no-cache")
        assert.strictEqual(headers["vary"], vary)
        assert.strictEqual(headers["content-type"], "application/json")
      }
    }))

  it.effect("shows no private value of the owner, the request or the provider", () =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const holder = yield* issue()
      const operation = yield* accept(holder)
      yield* move(operation, "submitting", "submitted", "indeterminate", "succeeded")
      for (const target of [`/v1/operations/${operation.id}`, "/v1/operations"]) {
        const { headerLines, text } = yield* send(target, { token: holder.token })
        const { client_id, grant_id, provider, provider_connection_id, resource_owner, subject } = holder.grant
        for (
          const secret of [client_id, grant_id, provider, provider_connection_id, resource_owner, subject, "amount"]
        ) {
          assert.notInclude(text + JSON.stringify(headerLines), secret)
        }
      }
    }))
})

describe("Retry-After", () => {
  const ages = [[0, 1], [5, 1], [95, 10], [600.5, 61], [2995, 300], [86_400, 300], [31_536_000, 300]] as const

  it.live.each(ages)(
    "grows with the age of the state, from 1 second to 5 minutes: %d s old, wait %d s",
    ([age, wait]) =>
      Effect.suspend(() => {
        const updated_at = DateTime.makeUnsafe(Date.now() - age * 1000)
        return withServices(
          { find: () => Effect.succeed(operationWith({ updated_at, created_at: updated_at })) },
          ({ send }) =>
            Effect.gen(function*() {
              const target = `/v1/operations/${fixedId}`
              const read = yield* send(target, { token: fixedToken })
              assert.strictEqual(read.headers["retry-after"], String(wait))
              const again = yield* send(target, {
                token: fixedToken,
                headers: { "if-none-match": read.headers["etag"]! }
              })
              assert.strictEqual(again.status, 304)
              assert.strictEqual(again.headers["retry-after"], String(wait))
            })
        )
      })
  )

  it.live("is 1 second when the clock of the database is ahead", () => {
    const updated_at = DateTime.makeUnsafe(Date.now() + 60_000)
    return withServices(
      { find: () => Effect.succeed(operationWith({ updated_at })) },
      ({ send }) =>
        Effect.gen(function*() {
          const { headers } = yield* send(`/v1/operations/${fixedId}`, { token: fixedToken })
          assert.strictEqual(headers["retry-after"], "1")
        })
    )
  })
})

layer(postgresGateway(), { excludeTestServices: true })("Retry-After", (it) => {
  it.effect.each(states)("is sent until the state is final, and never after: %s", (state) =>
    Effect.gen(function*() {
      const { send } = yield* Gateway
      const holder = yield* issue()
      const { id } = yield* acceptIn(holder, state)
      const { headers } = yield* send(`/v1/operations/${id}`, { token: holder.token })
      const again = yield* send(`/v1/operations/${id}`, {
        token: holder.token,
        headers: { "if-none-match": headers["etag"]! }
      })
      assert.strictEqual(again.status, 304)
      for (const seen of [headers, again.headers]) {
        if (terminal.includes(state)) assert.notProperty(seen, "retry-after")
        else assert.strictEqual(seen["retry-after"], "1")
      }
    }))
})
