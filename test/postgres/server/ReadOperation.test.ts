/**
 * GET /v1/operations/{id} shows exactly the public form of an operation, in every state. `unit/server/reads/OperationResponses` holds the
 * headers, and `unit/domain/Polling` the seconds of Retry-After.
 */
import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import type { OperationState } from "../../../src/domain/Operation.ts"
import { Gateway, postgresGateway } from "../../fixtures/http/HttpGateway.ts"
import { acceptIn, issue } from "../../fixtures/http/HttpScene.ts"
import { json } from "../../fixtures/http/HttpWire.ts"
import { pathTo } from "../../fixtures/ledger/Ledger.ts"
import { uncertainStates } from "../../fixtures/Specification.ts"

const states = Object.keys(pathTo) as ReadonlyArray<OperationState>
const terminal: ReadonlyArray<OperationState> = ["succeeded", "failed", "cancelled"]

const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

layer(postgresGateway({ way: "both" }), { excludeTestServices: true })("GET /v1/operations/{id}", (it) => {
  it.effect.each(states)(
    "is 200 with exactly the public form, and Retry-After until the state is final: %s",
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
          submission_uncertain: uncertainStates.includes(state),
          under_review: false,
          revision: pathTo[state].length + 1,
          created_at: DateTime.formatIso(operation.created_at),
          updated_at: DateTime.formatIso(operation.updated_at),
          completed_at: isTerminal ? DateTime.formatIso(operation.updated_at) : null,
          failure: state === "failed" ? { code: "declined", message: "The bank declined." } : null
        })
        assert.match(body["created_at"] as string, timestamp)
        const again = yield* send(`/v1/operations/${operation.id}`, {
          token: holder.token,
          headers: { "if-none-match": answer.headers["etag"]! }
        })
        assert.strictEqual(again.status, 304)
        for (const { headers } of [answer, again]) {
          assert.strictEqual(headers["retry-after"], isTerminal ? undefined : "1")
        }
        const { client_id, grant_id, provider, provider_connection_id, resource_owner, subject } = holder.grant
        const secrets = [client_id, grant_id, provider, provider_connection_id, resource_owner, subject, "amount"]
        const headers = JSON.stringify(answer.headerLines)
        for (const secret of secrets) {
          assert.notInclude(headers, secret)
        }
      })
  )
})
