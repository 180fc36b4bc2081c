/**
 * A revocation affects exactly the grants in its range, known or not yet seen. One by an id that the ledger does not know as a
 * client fails, and is recorded all the same. The tests run against PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import {
  ClientId,
  gatewayClientId,
  type Grant,
  type Issuer,
  IssuerClientId,
  revocationMargin
} from "../../../../src/domain/Grant.ts"
import { type GrantRegistration, Grants } from "../../../../src/services/Grants.ts"
import {
  identify,
  isRevoked,
  later,
  newExternalId,
  newIssuer,
  newRegistration,
  register,
  revocationCalls,
  revocations,
  sweeping
} from "../../../fixtures/ledger/ExternalGrants.ts"
import {
  conformance,
  everything,
  fieldsOf,
  issue,
  issueAgain,
  newClient,
  newSubject,
  nextMillisecond,
  unique,
  walk
} from "../../../fixtures/ledger/Ledger.ts"

/** The names of those grants that are revoked now. */
const revokedOf = (grants: Readonly<Record<string, Grant>>) =>
  Effect.map(
    Effect.forEach(
      Object.entries(grants),
      ([name, { grant_id }]) =>
        Grants.use((grants) => Effect.map(grants.show(grant_id), (grant) => [name, grant] as const))
    ),
    (shown) => shown.flatMap(([name, grant]) => isRevoked(grant) ? [name] : [])
  )

/** Another grant of the same subject, client and issuer. */
const another = (registration: GrantRegistration) => ({ ...registration, grant: newExternalId() })

/** Grants that differ from a registration in one property. */
const registerAll = (registration: GrantRegistration) =>
  Effect.all({
    "itself": register(registration),
    "of the same subject": register(another(registration)),
    "of another subject": register({ ...another(registration), subject: newSubject() }),
    "at another issuer": register({ ...registration, issuer: newIssuer() }),
    "of another client": register({ ...registration, client_id: newClient() })
  })

/** The grants that each way to revoke affects, among grants that differ in one property. */
const meant: Readonly<Record<keyof typeof revocations, ReadonlyArray<string>>> = {
  "its grant": ["itself"],
  "its subject": ["itself", "of the same subject"],
  "its client at the issuer": ["itself", "of the same subject", "of another subject"],
  "its client": ["itself", "of the same subject", "of another subject", "at another issuer", "issued by the gateway"]
}

for (const [way, names] of Object.entries(meant) as Array<[keyof typeof revocations, ReadonlyArray<string>]>) {
  const revoke = revocations[way]

  conformance(`revoking ${way}`, (it) => {
    it.effect(`affects ${names.join(", ")}, and no other grant`, () =>
      Effect.gen(function*() {
        const registration = newRegistration()
        const { client_id, subject } = registration
        const grants = {
          ...yield* registerAll(registration),
          "issued by the gateway": (yield* issue({ client_id, subject })).grant
        }
        assert.strictEqual(yield* revoke(registration), names.length)
        assert.sameMembers([...yield* revokedOf(grants)], [...names])
        const { grant_id } = grants["itself"]
        assert.isTrue((yield* Grants.use((grants) => grants.show(grant_id))).client_active)
      }))

    it.effect("revokes nothing when it is repeated, and keeps the first time", () =>
      Effect.gen(function*() {
        const registration = newRegistration()
        const { grant_id } = yield* register(registration)
        const shown = Grants.use((grants) => grants.show(grant_id))
        assert.strictEqual(yield* revocationCalls[way](registration), 1)
        const first = yield* shown
        yield* nextMillisecond
        assert.strictEqual(yield* revocationCalls[way](registration), 0, "nor does it fail")
        assert.deepStrictEqual(yield* shown, first)
      }))

    it.effect("affects expired grants too: their end may still move", () =>
      Effect.gen(function*() {
        const registration = newRegistration({ expires_at: later("-1 hours") })
        yield* register(registration)
        assert.strictEqual(yield* revoke(registration), 1)
        assert.isTrue(isRevoked(yield* register({ ...registration, expires_at: later("1 hour") })))
      }))

    it.effect("affects grants not seen yet: older tokens, and tokens without a time, register them as revoked", () =>
      Effect.gen(function*() {
        // An issuer that the ledger does not know may have any client.
        const call = way === "its client" ? revoke : revocationCalls[way]
        for (const learned_from of ["event", "token"] as const) {
          for (const granted_at of [undefined, null, later("-1 days"), later(0)]) {
            const registration = newRegistration({ learned_from, ...granted_at === undefined ? {} : { granted_at } })
            assert.strictEqual(yield* call(registration), 0)
            const grant = yield* register(registration)
            assert.isTrue(isRevoked(grant))
            assert.deepStrictEqual(yield* register(registration), grant)
            const refused = yield* Effect.flip(walk(yield* identify(registration), everything))
            assert.deepStrictEqual(fieldsOf(refused), { _tag: "GrantRevoked", reason: "revoked" })
          }
        }
      }))

    it.effect("affects, among grants not seen yet, exactly those in its range", () =>
      Effect.gen(function*() {
        const registration = newRegistration()
        yield* revoke(registration)
        const grants = yield* registerAll(registration)
        assert.deepStrictEqual(yield* revokedOf(grants), names.filter((name) => name in grants))
      }))
  })
}

conformance("a grant that is first registered after a revocation", (it) => {
  for (const way of sweeping) {
    it.effect(`of ${way} stands when it is younger by the margin, to the millisecond, until the next one`, () =>
      Effect.gen(function*() {
        const registration = newRegistration()
        yield* revocations[way](registration)
        const { revoked_at } = yield* register(registration)
        const limit = DateTime.addDuration(revoked_at!, revocationMargin)
        const given = (granted_at: DateTime.Utc) => register({ ...another(registration), granted_at })
        assert.isTrue(isRevoked(yield* given(DateTime.subtract(limit, { milliseconds: 1 }))))
        const grant = yield* given(limit)
        assert.isFalse(isRevoked(grant))
        // The event of another grant does not date this one, and an older time changes nothing.
        assert.deepStrictEqual(
          yield* register({ ...registration, grant: grant.external_id!, granted_at: later("-1 days") }),
          grant
        )
        yield* nextMillisecond
        assert.strictEqual(yield* revocations[way](registration), 1)
        assert.isTrue(isRevoked(yield* given(limit)))
      }))
  }

  it.effect("under the same name is the same grant: it stays revoked for ever, since the first time", () =>
    Effect.gen(function*() {
      const registration = newRegistration({ granted_at: later("365 days") })
      yield* revocations["its grant"](registration)
      const { created_at: afterwards } = yield* register(newRegistration())
      yield* nextMillisecond
      yield* revocations["its grant"](registration)
      const grant = yield* register(registration)
      assert.isTrue(isRevoked(grant))
      assert.isTrue(DateTime.isLessThanOrEqualTo(grant.revoked_at!, afterwards))
      assert.deepStrictEqual(yield* register(registration), grant)
    }))

  it.effect("is revoked since the first one, where several revocations affect it", () =>
    Effect.gen(function*() {
      const registration = newRegistration()
      yield* revocations["its subject"](registration)
      const { revoked_at } = yield* register(registration)
      yield* nextMillisecond
      yield* revocations["its client at the issuer"](registration)
      assert.deepStrictEqual((yield* register(another(registration))).revoked_at, revoked_at)
    }))

  it.effect("stands when the gateway issues it: the grant is made now, by an authorized caller", () =>
    Effect.gen(function*() {
      const { grant } = yield* issue()
      yield* revocations["its client"](grant)
      assert.isFalse(isRevoked((yield* issueAgain(grant)).grant))
    }))
})

const isNowRevoked = ({ grant_id }: Grant) => Effect.map(Grants.use((grants) => grants.show(grant_id)), isRevoked)
const failure = (client_id: ClientId, issuer: Issuer | null) => ({ _tag: "UnmatchedRevocation", client_id, issuer })

for (const [name, revoke] of Object.entries(revocationCalls)) {
  conformance(`a revocation of ${name}`, (it) => {
    const issuerOf = ({ issuer }: GrantRegistration) => name === "its client" ? null : issuer

    it.effect("by the server's own client id fails where the issuer has a client prefix, and revokes nothing", () =>
      Effect.gen(function*() {
        const own = IssuerClientId.make(unique("agent"))
        const registration = newRegistration({ client_id: gatewayClientId("first/", own)! })
        const grant = yield* register(registration)
        const mistaken = { ...registration, client_id: ClientId.make(own) }
        const error = yield* Effect.flip(revoke(mistaken))
        assert.deepInclude(fieldsOf(error), failure(mistaken.client_id, issuerOf(registration)))
        assert.include(error.message, "client_prefix")
        assert.isFalse(yield* isNowRevoked(grant))
        assert.strictEqual(yield* revoke(registration), 1)
        assert.isTrue(yield* isNowRevoked(grant))
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
  })
}

conformance("a revocation without an issuer", (it) => {
  it.effect("counts grants and clients of the gateway itself as well", () =>
    Effect.gen(function*() {
      const { grant } = yield* issue()
      for (const count of [1, 0]) assert.strictEqual(yield* revocationCalls["its client"](grant), count)
    }))
})
