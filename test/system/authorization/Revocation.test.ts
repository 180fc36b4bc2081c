/**
 * A grant that is revoked at the authorization server stops reading at once, at every gateway. The tests revoke at a
 * real server, whose events a webhook delivers.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ClientId, Issuer, PairwiseSubject } from "../../../src/domain/Grant.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { type AgentClient, pairwiseSubject } from "../../fixtures/authorization/AuthorizationServer.ts"
import {
  anotherGateway,
  authorize,
  type Authorized,
  authorizedGateway,
  connectWebhook,
  idsOf,
  presented,
  read,
  server,
  settled,
  type Setup
} from "../../fixtures/authorization/AuthorizedGateway.ts"
import { assertProblemOf, baseUrl } from "../../fixtures/http/HttpProblem.ts"

const agents: ReadonlyArray<AgentClient> = [
  { client_id: "agent", tokens: "ES256", authentication: "private_key_jwt", binding: "DPoP" },
  { client_id: "bearer", tokens: "EdDSA", authentication: "client_secret_basic", binding: "none" },
  { client_id: "doomed", tokens: "EdDSA", authentication: "client_secret_basic", binding: "none" }
]

const withProvisioning: Setup = {
  servers: [{ agents }],
  accept: ([server]) => ({ issuers: [{ issuer: server!.issuer, audience: baseUrl, grantProvisioning: {} }] })
}

const byEvents: Setup = {
  servers: [{ agents }],
  accept: ([server]) => ({ issuers: [{ issuer: server!.issuer, audience: baseUrl }] })
}

/** The owner or the agent revokes the grant at the authorization server, which sends an event to the gateway. */
const revokeAtServer = ({ agent, tokens }: Authorized) =>
  Effect.andThen(
    Effect.promise(() => agent.revoke(tokens.refresh)),
    Effect.flatMap(server(), ({ delivered }) => delivered)
  )

layer(authorizedGateway(withProvisioning), { excludeTestServices: true })(
  "A revocation at the authorization server",
  (it) => {
    it.effect.each(["agent", "bearer"])(
      "is 401 grant_revoked at the next read, although the token is good: %s",
      (client_id) =>
        Effect.gen(function*() {
          yield* connectWebhook(yield* server())
          const { holder, operation } = yield* settled(client_id)
          yield* revokeAtServer(holder)
          const answer = yield* read(holder)
          assertProblemOf(answer, "grant_revoked")
          assert.include(answer.headers["www-authenticate"], "error=\"invalid_token\"")
          assertProblemOf(yield* read(holder, `/v1/operations/${operation.id}`), "grant_revoked")
        })
    )

    it.effect("holds at every gateway of the database", () =>
      Effect.gen(function*() {
        yield* connectWebhook(yield* server())
        const { holder } = yield* settled("agent")
        const other = yield* anotherGateway(withProvisioning)
        const readThere = Effect.suspend(() => other.send("/v1/operations", presented(holder, "/v1/operations")))
        assert.strictEqual((yield* readThere).status, 200)
        yield* revokeAtServer(holder)
        assertProblemOf(yield* readThere, "grant_revoked")
      }))

    it.effect("ends one grant: a new grant of the owner reads the operations of the old one", () =>
      Effect.gen(function*() {
        yield* connectWebhook(yield* server())
        const { holder, operation } = yield* settled("bearer")
        yield* revokeAtServer(holder)
        const again = yield* authorize("bearer", { account: holder.account })
        assert.deepStrictEqual(idsOf(yield* read(again)), [operation.id])
        assertProblemOf(yield* read(holder), "grant_revoked")
      }))

    it.effect("applies to a token that the gateway sees for the first time afterwards", () =>
      Effect.gen(function*() {
        yield* connectWebhook(yield* server())
        const holder = yield* authorize("bearer")
        yield* revokeAtServer(holder)
        assertProblemOf(yield* read(holder), "grant_revoked")
      }))

    it.effect("of all grants of a subject or a client ends each of them", () =>
      Effect.gen(function*() {
        const { issuer } = yield* server()
        const grants = yield* Grants
        const names = { issuer: Issuer.make(issuer), client_id: ClientId.make("doomed") }
        const one = yield* settled("doomed")
        const other = yield* settled("doomed")
        const subject = PairwiseSubject.make(pairwiseSubject(one.holder.account, "doomed"))
        assert.strictEqual(yield* grants.revokeSubject({ ...names, subject }), 1)
        assertProblemOf(yield* read(one.holder), "grant_revoked")
        assert.strictEqual((yield* read(other.holder)).status, 200)
        assert.isAtLeast(yield* grants.revokeClient(names), 1)
        assertProblemOf(yield* read(other.holder), "grant_revoked")
      }))

    it.effect("does not affect the grants of other clients", () =>
      Effect.gen(function*() {
        yield* connectWebhook(yield* server())
        const one = yield* settled("bearer")
        const other = yield* settled("agent", { account: one.holder.account })
        yield* revokeAtServer(one.holder)
        assertProblemOf(yield* read(one.holder), "grant_revoked")
        assert.strictEqual((yield* read(other.holder)).status, 200)
      }))
  }
)

layer(authorizedGateway(byEvents), { excludeTestServices: true })("Where grants are registered by events", (it) => {
  it.effect("a token without an event is 401", () =>
    Effect.gen(function*() {
      assertProblemOf(yield* read(yield* authorize("bearer")), "invalid_token")
    }))

  it.effect("a grant reads from its event until its revocation", () =>
    Effect.gen(function*() {
      const { delivered } = yield* server()
      yield* connectWebhook(yield* server())
      const holder = yield* authorize("agent")
      yield* delivered
      assert.deepStrictEqual(idsOf(yield* read(holder)), [])
      yield* revokeAtServer(holder)
      assertProblemOf(yield* read(holder), "grant_revoked")
    }))
})
