/**
 * Registering a grant of an authorization server merges events and tokens in any order, and never widens an event or
 * undoes a revocation. The tests run against PostgreSQL and the memory store.
 */
import { assert, layer } from "@effect/vitest"
import { DateTime, Duration, Effect, Fiber, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { AuthorizationDetails } from "../../../../src/domain/AuthorizationDetails.ts"
import { Grant, operationsRead, ProviderName, Scope, scopeLimits } from "../../../../src/domain/Grant.ts"
import { type GrantRegistration, Grants } from "../../../../src/services/Grants.ts"
import {
  identify,
  idOf,
  later,
  newExternalId,
  newIssuer,
  newRegistration,
  register
} from "../../../fixtures/ledger/ExternalGrants.ts"
import {
  accept,
  conformance,
  everything,
  fieldsOf,
  issue,
  issueAgain,
  newClient,
  newOwner,
  newSubject,
  PostgresLedger,
  walk
} from "../../../fixtures/ledger/Ledger.ts"
import { openTransaction, untilWaiting } from "../../../fixtures/postgres/Pools.ts"
import { layerRecorded, Statements } from "../../../fixtures/postgres/Statements.ts"

const write = Scope.make("payments:write")

/** Limits: the most of one operation. */
const upTo = (amount: string): AuthorizationDetails => [{
  type: "financial_operations",
  max_amount: [{ currency: "EUR", amount }]
}]

/** How many of these concurrent registrations succeed. They have what is stored then, and the others are conflicts. */
const race = Effect.fnUntraced(function*(registrations: ReadonlyArray<GrantRegistration>) {
  const results = yield* Effect.forEach(registrations, (one) => Effect.result(register(one)), {
    concurrency: "unbounded"
  })
  const registered = results.flatMap((result) => result._tag === "Success" ? [result.success] : [])
  const shown = yield* Grants.use((grants) => grants.show(registered[0]!.grant_id))
  for (const grant of registered) assert.deepStrictEqual(grant, shown)
  for (const result of results) if (result._tag === "Failure") assert.strictEqual(result.failure._tag, "GrantConflict")
  return registered.length
})

conformance("registering a grant of an authorization server", (it) => {
  it.effect("records the grant under the id that follows from its name, and creates no token", () =>
    Effect.gen(function*() {
      const registration = newRegistration({ scopes: [operationsRead, write] })
      const { client_id, expires_at, grant: external_id, issuer, resource_owner, scopes, subject } = registration
      const grant = yield* register(registration)
      assert.isTrue(Schema.is(Grant)(grant))
      assert.deepStrictEqual(grant, {
        grant_id: yield* idOf(registration),
        client_id,
        client_active: true,
        subject,
        resource_owner,
        provider_connection_id: grant.provider_connection_id,
        provider: registration.provider,
        provider_connected: true,
        scopes,
        created_at: grant.created_at,
        expires_at,
        revoked_at: null,
        issuer,
        external_id,
        registered_by_event_at: grant.registered_by_event_at!
      })
      assert.isDefined(grant.registered_by_event_at)
      assert.deepStrictEqual(yield* Grants.use((grants) => grants.show(grant.grant_id)), grant)
    }))

  it.effect("by an event sets scopes and end to those of the event, and changes nothing else", () =>
    Effect.gen(function*() {
      const registration = newRegistration({ scopes: [operationsRead] })
      const grant = yield* register(registration)
      for (
        const [scopes, life] of [[[write], "2 hours"], [[], "1 minute"], [[write, operationsRead], "-1 hours"]] as const
      ) {
        const said = { scopes, expires_at: later(life) }
        assert.deepStrictEqual(yield* register({ ...registration, ...said }), { ...grant, ...said })
      }
      const identity = yield* identify(registration)
      assert.strictEqual((yield* Effect.flip(walk(identity, everything)))._tag, "GrantRevoked")
      yield* register(registration)
      yield* walk(identity, everything)
    }))

  it.effect("by tokens adds up the scopes and the latest end of all of them, in any order", () =>
    Effect.gen(function*() {
      const tokens = [
        { scopes: [operationsRead], expires_at: later("1 hour") },
        { scopes: [write, operationsRead], expires_at: later("3 hours") },
        { scopes: [], expires_at: later("5 hours") }
      ]
      for (const order of [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]]) {
        const registration = newRegistration()
        let grant: Grant | undefined
        for (const n of order) grant = yield* register({ ...registration, ...tokens[n]!, learned_from: "token" })
        assert.sameMembers([...grant!.scopes], [operationsRead, write])
        assert.deepStrictEqual(grant!.expires_at, tokens[2]!.expires_at)
      }
    }))

  it.effect("by a token moves the end by more than an hour, or not at all", () =>
    Effect.gen(function*() {
      const expires_at = later("1 day")
      const registration = newRegistration({ learned_from: "token", expires_at })
      const moved = (millis: number) =>
        Effect.map(
          register({ ...registration, expires_at: DateTime.add(expires_at, { hours: 1, milliseconds: millis }) }),
          (grant) => DateTime.distance(expires_at, grant.expires_at)
        )
      yield* register(registration)
      assert.deepStrictEqual(yield* moved(0), Duration.zero)
      assert.deepStrictEqual(yield* moved(1), Duration.millis(3_600_001))
      assert.deepStrictEqual(yield* moved(0), Duration.millis(3_600_001))
    }))

  it.effect("by a token adds neither scopes nor time to those of an event, in either order", () =>
    Effect.gen(function*() {
      for (const tokenCameFirst of [true, false]) {
        const wide = { scopes: [operationsRead, write], expires_at: later("90 days") }
        const events = [
          { scopes: [], expires_at: later("10 minutes") },
          { scopes: [], expires_at: later("-1 minutes") },
          // It repeats what the first token said.
          wide
        ]
        for (const event of events) {
          const registration = newRegistration(event)
          const token = { ...registration, ...wide, learned_from: "token" } as const
          if (tokenCameFirst) assert.notProperty(yield* register(token), "registered_by_event_at")
          const said = yield* register(registration)
          assert.deepInclude(said, event)
          // Also more scopes than a grant may have.
          const more = Array.from({ length: scopeLimits.count }, (_, n) => Scope.make(`more-${n}`))
          const wider = { ...token, scopes: [...token.scopes, ...more], expires_at: later("180 days") }
          assert.deepStrictEqual(yield* register(wider), said)
          for (let times = 0; times < 2; times++) assert.deepStrictEqual(yield* register(token), said)
        }
      }
    }))

  it.effect("never restores a revoked grant, by any event or token, however often", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const registration = newRegistration()
      const { grant_id } = yield* register(registration)
      const { revoked_at } = yield* grants.revoke(grant_id)
      assert.isNotNull(revoked_at)
      for (const learned_from of ["event", "token"] as const) {
        const again = yield* register({
          ...registration,
          learned_from,
          granted_at: later("1 day"),
          expires_at: later("30 days")
        })
        assert.deepStrictEqual(again.revoked_at, revoked_at)
        const refused = yield* Effect.flip(walk(yield* identify(registration), everything))
        assert.deepStrictEqual(fieldsOf(refused), { _tag: "GrantRevoked", reason: "revoked" })
      }
    }))

  it.effect("for another subject, owner or provider is a conflict and changes nothing", () =>
    Effect.gen(function*() {
      const registration = newRegistration()
      const grant = yield* register(registration)
      const others = [{ subject: newSubject() }, { resource_owner: newOwner() }, {
        provider: ProviderName.make("broker")
      }]
      for (const contradiction of others) {
        for (const learned_from of ["event", "token"] as const) {
          const other = { ...registration, ...contradiction, scopes: [write], expires_at: later("1 day"), learned_from }
          const conflict = yield* Effect.flip(register(other))
          assert.deepStrictEqual(fieldsOf(conflict), { _tag: "GrantConflict", id: grant.grant_id })
          assert.deepStrictEqual(yield* Grants.use((grants) => grants.show(grant.grant_id)), grant)
        }
      }
      assert.deepStrictEqual(yield* register(registration), grant)
    }))

  it.effect("neither reactivates a client nor reconnects a provider, and shares the provider connection of issued grants", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const { grant } = yield* issue()
      const { client_id, provider, provider_connection_id, resource_owner } = grant
      yield* grants.setClientActive(client_id, false)
      yield* grants.setProviderConnected(provider_connection_id, false)
      const registration = newRegistration({ client_id, provider, resource_owner })
      for (let n = 0; n < 2; n++) {
        assert.deepInclude(yield* register(registration), {
          client_active: false,
          provider_connected: false,
          provider_connection_id
        })
      }
      const other = yield* register(newRegistration({ provider, resource_owner }))
      assert.strictEqual((yield* issueAgain(other)).grant.provider_connection_id, provider_connection_id)
    }))

  it.effect("distinguishes grants of the same name by issuer and client", () =>
    Effect.gen(function*() {
      const registration = newRegistration()
      const first = yield* register(registration)
      const others = [{ issuer: newIssuer() }, { client_id: newClient() }, { grant: newExternalId() }]
      const ids = [first.grant_id]
      for (const other of others) {
        const subject = newSubject()
        const grant = yield* register({ ...registration, ...other, subject })
        assert.strictEqual(grant.subject, subject)
        ids.push(grant.grant_id)
      }
      assert.strictEqual(new Set(ids).size, 4)
      assert.deepStrictEqual(yield* register(registration), first)
    }))

  it.effect("for several subjects concurrently creates one grant, and is a conflict for the others, however often", () =>
    Effect.gen(function*() {
      for (let round = 0; round < 20; round++) {
        const registration = newRegistration()
        const each = Array.from({ length: 6 }, () => ({ ...registration, subject: newSubject() }))
        assert.strictEqual(yield* race(each.flatMap((one) => [one, one])), 2)
      }
    }))

  it.effect("gives limits once: an event with others is a conflict, a token changes nothing, and its own only narrow", () =>
    Effect.gen(function*() {
      for (const first of ["event", "token"] as const) {
        const registration = newRegistration({ learned_from: "token" })
        assert.notProperty(yield* register(registration), "authorization_details")
        const authorization_details = upTo("100.00")
        const limited = { ...registration, authorization_details }
        const grant = yield* register({ ...limited, learned_from: first })
        assert.deepStrictEqual(grant.authorization_details, authorization_details)
        const others = { ...registration, scopes: [write], authorization_details: upTo("500.00") }
        yield* register(others)
        assert.strictEqual((yield* Effect.flip(register({ ...others, learned_from: "event" })))._tag, "GrantConflict")
        yield* register({ ...registration, learned_from: "event" })
        const shown = yield* register({ ...limited, learned_from: "event" })
        assert.deepInclude(shown, { authorization_details, scopes: registration.scopes })

        const identity = yield* identify(registration)
        const pays = (amount: string, details?: AuthorizationDetails) =>
          Effect.isSuccess(accept(
            { ...identity, ...details === undefined ? {} : { authorization_details: details } },
            { terms: { amount, currency: "EUR", payee: "A" } }
          ))
        assert.deepStrictEqual(
          yield* Effect.all([
            pays("100.00"),
            pays("100.01"),
            pays("100.01", upTo("500.00")),
            pays("60", upTo("50.00")),
            pays("50", upTo("50.00"))
          ]),
          [true, false, false, false, true]
        )
      }
    }))

  it.effect("with different limits concurrently has those of one event", () =>
    Effect.gen(function*() {
      for (let round = 0; round < 10; round++) {
        const registration = newRegistration()
        const limits = ["1.00", "2.00", "3.00", "4.00"].map(upTo)
        const each = limits.map((authorization_details) => ({ ...registration, authorization_details }))
        assert.strictEqual(yield* race(each), 1)
      }
    }))

  it.effect("keeps milliseconds, and ends in the far future", () =>
    Effect.gen(function*() {
      for (const expires_at of [DateTime.makeUnsafe("9999-12-31T23:59:59.999Z"), DateTime.makeUnsafe(1)]) {
        assert.deepStrictEqual((yield* register(newRegistration({ expires_at }))).expires_at, expires_at)
      }
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("a registration in PostgreSQL", (it) => {
  it.effect("that is a conflict leaves neither client nor provider connection behind", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const registration = newRegistration()
      yield* register(registration)
      const owner = newOwner()
      yield* Effect.flip(register({ ...registration, resource_owner: owner }))
      assert.isEmpty(yield* sql`SELECT 1 FROM provider_connections WHERE resource_owner = ${owner}`)
    }))

  it.effect("that repeats what is stored writes no row", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const registration = newRegistration()
      const { grant_id } = yield* register(registration)
      const version = sql`SELECT xmin::text, ctid::text FROM grants WHERE id = ${grant_id}`
      const before = yield* version
      yield* register(registration)
      yield* register({ ...registration, learned_from: "token", scopes: [write], expires_at: later("1 day") })
      assert.deepStrictEqual(yield* version, before)
    }))

  it.effect("by a token adds nothing to a concurrent event", () =>
    Effect.gen(function*() {
      const registration = newRegistration({ learned_from: "token" })
      const { grant_id } = yield* register(registration)
      const event = yield* openTransaction
      yield* event("UPDATE grants SET scopes = '{}', registered_by_event_at = now() WHERE id = $1", [grant_id])
      const token = yield* Effect.forkChild(
        register({ ...registration, scopes: [write], expires_at: later("1 day") }).pipe(
          // A registration by a token does not wait for long.
          Effect.retry({ while: ({ _tag }) => _tag === "StoreUnavailable" })
        )
      )
      yield* untilWaiting(1)
      yield* event("COMMIT")
      yield* Fiber.join(token)
      const { expires_at, scopes } = yield* Grants.use((grants) => grants.show(grant_id))
      assert.deepStrictEqual({ expires_at, scopes }, { expires_at: registration.expires_at, scopes: [] })
    }))

  it.effect("that repeats what is stored costs one statement, and takes no lock", () =>
    Effect.gen(function*() {
      const registration = newRegistration({ learned_from: "token" })
      const statements = yield* Statements
      yield* register(registration)
      const before = statements.length
      for (let minutes = 1; minutes < 60; minutes++) {
        yield* register({ ...registration, expires_at: DateTime.add(registration.expires_at, { minutes }) })
      }
      assert.strictEqual(statements.length - before, 59)
      assert.isTrue(statements.slice(before).every(({ text }) => /^\s*SELECT g\.id /.test(text)))
    }).pipe(Effect.provide(Layer.fresh(Grants.layer.pipe(Layer.provideMerge(layerRecorded))))))
})
