/**
 * Issuing records a grant as requested and creates a token of its own for it. The tests run against PostgreSQL and the
 * memory store.
 */
import { assert } from "@effect/vitest"
import { Duration, Effect, Redacted, Schema } from "effect"
import { Grant, operationsRead, ProviderName, Scope } from "../../../../src/domain/Grant.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { conformance, issue, issueAgain, newClient, newOwner, newSubject } from "../../../fixtures/ledger/Ledger.ts"

conformance("issuing a grant", (it) => {
  it.effect("records the grant as requested: client active, provider connected, not revoked", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const request = {
        resource_owner: newOwner(),
        subject: newSubject(),
        client_id: newClient(),
        provider: ProviderName.make("bank"),
        scopes: [operationsRead, Scope.make("payments:write")],
        expires_in: Duration.days(30)
      }
      const { grant } = yield* grants.issue(request)
      const { expires_in, ...asked } = request
      assert.isTrue(Schema.is(Grant)(grant))
      assert.deepStrictEqual(grant, {
        ...asked,
        grant_id: grant.grant_id,
        provider_connection_id: grant.provider_connection_id,
        client_active: true,
        provider_connected: true,
        created_at: grant.created_at,
        expires_at: grant.expires_at,
        revoked_at: null
      })
      const life = grant.expires_at.epochMilliseconds - grant.created_at.epochMilliseconds
      assert.approximately(life, Duration.toMillis(expires_in), 1000)
      assert.deepStrictEqual(yield* grants.show(grant.grant_id), grant)
    }))

  it.effect("gives each grant a token of its own", () =>
    Effect.gen(function*() {
      const { access_token, grant } = yield* issue()
      const again = yield* issueAgain(grant)
      assert.notStrictEqual(Redacted.value(again.access_token), Redacted.value(access_token))
      assert.notInclude(JSON.stringify(again), Redacted.value(again.access_token))
    }))

  it.effect("shares one provider connection for each resource owner and provider", () =>
    Effect.gen(function*() {
      const { grant } = yield* issue()
      const binding = grant.provider_connection_id
      const same = yield* issueAgain(grant, { client_id: newClient(), subject: newSubject() })
      const otherProvider = yield* issueAgain(grant, { provider: ProviderName.make("broker") })
      const otherOwner = yield* issueAgain(grant, { resource_owner: newOwner() })
      assert.strictEqual(same.grant.provider_connection_id, binding)
      assert.notStrictEqual(otherProvider.grant.provider_connection_id, binding)
      assert.notStrictEqual(otherOwner.grant.provider_connection_id, binding)
    }))

  it.effect("shares one client and provider connection also between grants that are issued concurrently", () =>
    Effect.gen(function*() {
      const owner = { client_id: newClient(), resource_owner: newOwner() }
      const issued = yield* Effect.all(Array.from({ length: 20 }, () => issue(owner)), { concurrency: "unbounded" })
      assert.strictEqual(new Set(issued.map(({ grant }) => grant.provider_connection_id)).size, 1)
      assert.strictEqual(new Set(issued.map(({ grant }) => grant.grant_id)).size, 20)
    }))

  it.effect("keeps the scopes as given, also an empty list", () =>
    Effect.gen(function*() {
      for (const names of [[], ["a"], ["operations:read", "!#$%&'()*+,-./:;<=>?@[]^_`{|}~"]]) {
        const scopes = names.map((name) => Scope.make(name))
        assert.deepStrictEqual((yield* issue({ scopes })).grant.scopes, scopes)
      }
    }))
})
