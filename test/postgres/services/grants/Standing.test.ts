/**
 * The standing of a grant takes effect at the very next read, and a revocation is final. The tests run against
 * PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { bearer } from "../../../../src/domain/Credential.ts"
import {
  ClientId,
  GrantId,
  type GrantIdentity,
  ProviderConnectionId,
  ProviderName
} from "../../../../src/domain/Grant.ts"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { GrantVerifier } from "../../../../src/services/verification/GrantVerifier.ts"
import {
  accept,
  conformance,
  everything,
  fieldsOf,
  issue,
  issueAgain,
  newClient,
  nextMillisecond
} from "../../../fixtures/ledger/Ledger.ts"

const unknownId = "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"

/** The results of a find and a list: "ok", or the tag of the refusal. */
const read = Effect.fnUntraced(function*(grant: GrantIdentity, id: OperationId) {
  const store = yield* OperationStore
  const found = yield* Effect.result(store.find(grant, id))
  const listed = yield* Effect.result(store.list(grant, everything))
  return [found, listed].map((result) => result._tag === "Success" ? "ok" : result.failure._tag)
})

conformance("the standing of a grant", (it) => {
  it.effect("takes effect at the very next read: revoked, for ever", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const verifier = yield* GrantVerifier
      for (let round = 0; round < 50; round++) {
        const { access_token, grant, identity } = yield* issue()
        const { operation } = yield* accept(identity)
        // The verifier has seen the token: its cache is filled.
        const verified = yield* verifier.verify(bearer(access_token))
        assert.deepStrictEqual(yield* read(verified, operation.id), ["ok", "ok"])
        yield* grants.revoke(grant.grant_id)
        for (let n = 0; n < 3; n++) {
          assert.deepStrictEqual(yield* read(yield* verifier.verify(bearer(access_token)), operation.id), [
            "GrantRevoked",
            "GrantRevoked"
          ])
        }
      }
    }))

  it.effect("does not depend on other clients, provider connections and grants", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const { grant, identity } = yield* issue()
      const { operation } = yield* accept(identity)
      const otherClient = yield* issueAgain(grant, { client_id: newClient() })
      const otherProvider = yield* issueAgain(grant, { provider: ProviderName.make("broker") })
      const otherGrant = yield* issueAgain(grant)
      yield* grants.setClientActive(otherClient.grant.client_id, false)
      yield* grants.setProviderConnected(otherProvider.grant.provider_connection_id, false)
      yield* grants.revoke(otherGrant.grant.grant_id)
      assert.deepStrictEqual(yield* read(identity, operation.id), ["ok", "ok"])
    }))
})

conformance("a revocation", (it) => {
  it.effect("is final, and has one time, also when several callers revoke concurrently", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const { grant } = yield* issue()
      const revoke = Effect.all(Array.from({ length: 20 }, () => grants.revoke(grant.grant_id)), {
        concurrency: "unbounded"
      })
      const first = yield* revoke
      yield* nextMillisecond
      const [revoked, ...repeated] = [...first, ...yield* revoke]
      assert.isNotNull(revoked!.revoked_at)
      assert.deepStrictEqual(revoked, { ...grant, revoked_at: revoked!.revoked_at })
      for (const again of repeated) assert.deepStrictEqual(again, revoked)
      assert.deepStrictEqual(yield* grants.show(grant.grant_id), revoked)
    }))

  it.effect("ends with the grant: to the millisecond, by the clock of the store", () =>
    Effect.gen(function*() {
      const { grant } = yield* issue()
      const { grant: short, identity } = yield* issueAgain(grant, { expires_in: Duration.millis(200) })
      const { operation } = yield* accept(identity)
      const early = yield* read(identity, operation.id)
      // A busy machine may come too late.
      if (Date.now() < short.expires_at.epochMilliseconds) assert.deepStrictEqual(early, ["ok", "ok"])
      while (Date.now() <= short.expires_at.epochMilliseconds) yield* nextMillisecond
      assert.deepStrictEqual(yield* read(identity, operation.id), ["GrantRevoked", "GrantRevoked"])
    }))

  it.effect("is asked for many grants at once: it names those that may not read, and unknown ones", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const store = yield* OperationStore
      const issued = yield* Effect.forEach(Array.from({ length: 5 }), () => issue())
      const [good, revoked, inactive, disconnected] = issued.map(({ grant }) => grant)
      const unknown = { ...issued[4]!.identity, grant_id: GrantId.make(unknownId) }
      const identities = [...issued.map(({ identity }) => identity), unknown]
      assert.deepStrictEqual(yield* store.refused(identities), [unknown.grant_id])
      yield* grants.revoke(revoked!.grant_id)
      yield* grants.setClientActive(inactive!.client_id, false)
      yield* grants.setProviderConnected(disconnected!.provider_connection_id, false)
      const { client_id } = issued[4]!.identity
      const ofAnother = { ...issued[0]!.identity, client_id }
      assert.sameMembers([...yield* store.refused([...identities, ofAnother])], [
        revoked!.grant_id,
        inactive!.grant_id,
        disconnected!.grant_id,
        unknown.grant_id,
        good!.grant_id
      ])
    }))

  it.effect("cannot be changed for an unknown grant, client or connection: the error names it", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const id = GrantId.make(unknownId)
      const client = ClientId.make("unknown")
      const connection = ProviderConnectionId.make(unknownId)
      const attempts: ReadonlyArray<readonly [Effect.Effect<unknown, Error>, object]> = [
        [grants.show(id), { _tag: "GrantNotFound", id }],
        [grants.revoke(id), { _tag: "GrantNotFound", id }],
        [grants.setClientActive(client, false), { _tag: "ClientNotFound", id: client }],
        [grants.setProviderConnected(connection, false), { _tag: "ProviderConnectionNotFound", id: connection }]
      ]
      for (const [attempt, expected] of attempts) {
        const error = yield* Effect.flip(attempt)
        assert.deepStrictEqual(fieldsOf(error), expected)
        assert.match(error.message, /^there is no (?:grant|client|provider connection) [\w-]+$/)
      }
    }))
})
