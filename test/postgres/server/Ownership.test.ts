/**
 * An operation of another owner, subject or client looks exactly like one that does not exist. The tests compare full
 * HTTP answers of a gateway on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { randomUUID } from "node:crypto"
import { ClientId, PairwiseSubject, ResourceOwner } from "../../../src/domain/Grant.ts"
import { Gateway, postgresGateway } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf } from "../../fixtures/http/HttpProblem.ts"
import { accept, type Holder, issue, issueAgain } from "../../fixtures/http/HttpScene.ts"
import { type Answer, json } from "../../fixtures/http/HttpWire.ts"
import * as Ledger from "../../fixtures/ledger/Ledger.ts"

const unknown = "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"

const idsOf = (answer: Answer) => (json(answer) as { operations: Array<{ id: string }> }).operations.map(({ id }) => id)

/** All that a client can compare, without the two members that name the request itself. */
const observable = (answer: Answer) => {
  const { instance: _instance, request_id: _requestId, ...body } = json(answer) as Record<string, unknown>
  const { date: _date, "x-request-id": _header, ...headers } = answer.headers
  return { status: answer.status, headers, body }
}

layer(postgresGateway({ way: "both" }), { excludeTestServices: true })("An operation", (it) => {
  it.effect.each([
    { resource_owner: ResourceOwner.make(`owner-${randomUUID()}`) },
    { subject: PairwiseSubject.make(`subject-${randomUUID()}`) },
    { client_id: ClientId.make(`client-${randomUUID()}`) }
  ])(
    "of another owner, subject or client is 404, with the answer for one that does not exist: %j",
    (differs) =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        const owner = yield* issue()
        const key = Ledger.newKey()
        const { operation: { id } } = yield* Ledger.accept(owner.identity, { key })
        const stranger = yield* issueAgain(owner, differs)
        const own = yield* accept(stranger)
        const foreign = yield* send(`/v1/operations/${id}`, { token: stranger.token })
        const missing = yield* send(`/v1/operations/${unknown}`, { token: stranger.token })
        assertProblemOf(foreign, "operation_not_found")
        assert.deepStrictEqual(observable(foreign), observable(missing))
        const conditional = yield* send(`/v1/operations/${id}`, {
          token: stranger.token,
          headers: { "if-none-match": "*" }
        })
        assert.deepStrictEqual(observable(conditional), observable(missing))
        const byKey = (key: string, { token }: Holder) => send(`/v1/operations?idempotency_key=${key}`, { token })
        const foreignKey = yield* byKey(key, stranger)
        assert.deepStrictEqual(idsOf(foreignKey), [])
        assert.deepStrictEqual(observable(foreignKey), observable(yield* byKey(Ledger.newKey(), stranger)))
        assert.deepStrictEqual(idsOf(yield* byKey(key, owner)), [id])
        assert.deepStrictEqual(idsOf(yield* send("/v1/operations", { token: stranger.token })), [own.id])
        assert.deepStrictEqual(idsOf(yield* send("/v1/operations", { token: owner.token })), [id])
      })
  )
})
