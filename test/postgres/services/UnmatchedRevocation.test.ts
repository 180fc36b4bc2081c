/**
 * A revocation by an id that the ledger does not know as a client fails, in both stores: the usual cause is an id of the
 * authorization server without the client prefix. It is recorded all the same.
 */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { ClientId, type Issuer } from "../../../src/domain/Grant.ts"
import { gatewayClientId, IssuerClientId } from "../../../src/domain/IssuerClient.ts"
import { type GrantRegistration, Grants } from "../../../src/services/Grants.ts"
import { isRevoked, newRegistration, register } from "../../fixtures/ExternalGrants.ts"
import { conformance, fieldsOf, issue, newClient, unique } from "../../fixtures/Ledger.ts"

/** The calls that name a client, and the issuer of the failure. */
const calls = {
  "one grant": (registration: GrantRegistration) => Grants.use((grants) => grants.revokeExternal(registration)),
  "a subject": (registration: GrantRegistration) => Grants.use((grants) => grants.revokeSubject(registration)),
  "a client at an issuer": ({ client_id, issuer }: GrantRegistration) =>
    Grants.use((grants) => grants.revokeClient({ client_id, issuer })),
  "a client": ({ client_id }: GrantRegistration) => Grants.use((grants) => grants.revokeClient({ client_id }))
}

const failure = (client_id: ClientId, issuer: Issuer | null) => ({ _tag: "UnmatchedRevocation", client_id, issuer })

for (const [name, revoke] of Object.entries(calls)) {
  conformance(`a revocation of ${name}`, (it) => {
    const issuerOf = ({ issuer }: GrantRegistration) => name === "a client" ? null : issuer

    it.effect("by the server's own client id fails where the issuer has a client prefix, and revokes nothing", () =>
      Effect.gen(function*() {
        const own = IssuerClientId.make(unique("agent"))
        const registration = newRegistration({ client_id: gatewayClientId("first/", own)! })
        const { grant_id } = yield* register(registration)
        const mistaken = { ...registration, client_id: ClientId.make(own) }
        const error = yield* Effect.flip(revoke(mistaken))
        assert.deepInclude(fieldsOf(error), failure(mistaken.client_id, issuerOf(registration)))
        assert.include(error.message, "client_prefix")
        assert.isFalse(isRevoked(yield* Grants.use((grants) => grants.show(grant_id))))
        assert.strictEqual(yield* revoke(registration), 1)
        assert.isTrue(isRevoked(yield* Grants.use((grants) => grants.show(grant_id))))
      }))

    it.effect("that fails so is recorded: it holds for grants of this client id that are registered later", () =>
      Effect.gen(function*() {
        const known = newRegistration()
        yield* register(known)
        const later = newRegistration({ issuer: known.issuer })
        assert.deepInclude(fieldsOf(yield* Effect.flip(revoke(later))), failure(later.client_id, issuerOf(later)))
        assert.isTrue(isRevoked(yield* register(later)))
        assert.strictEqual(yield* revoke(later), 0)
      }))

    it.effect("of a client that has a grant does not fail, though it revokes nothing any more", () =>
      Effect.gen(function*() {
        const registration = newRegistration()
        yield* register(registration)
        assert.strictEqual(yield* revoke(registration), 1)
        assert.strictEqual(yield* revoke(registration), 0)
      }))
  })
}

conformance("a revocation at an issuer that the ledger does not know", (it) => {
  it.effect("does not fail: any client may be its client", () =>
    Effect.gen(function*() {
      for (const revoke of [calls["one grant"], calls["a subject"], calls["a client at an issuer"]]) {
        const registration = newRegistration()
        assert.strictEqual(yield* revoke(registration), 0)
        assert.isTrue(isRevoked(yield* register(registration)))
      }
    }))

  it.effect("and one without an issuer count grants and clients of the gateway itself as well", () =>
    Effect.gen(function*() {
      const { grant } = yield* issue({ client_id: newClient() })
      const grants = yield* Grants
      assert.strictEqual(yield* grants.revokeClient({ client_id: grant.client_id }), 1)
      assert.strictEqual(yield* grants.revokeClient({ client_id: grant.client_id }), 0)
    }))
})
