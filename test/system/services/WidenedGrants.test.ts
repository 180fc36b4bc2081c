/**
 * A role that registers tokens can only add to a grant of an authorization server, and only until an event registers
 * the grant. The tests try every call of the real role, and statements that bypass the services.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import { type Grant, type GrantId, ProviderName, Scope } from "../../../src/domain/Grant.ts"
import { type GrantRegistration, Grants } from "../../../src/services/Grants.ts"
import { identify, later, newExternalId, newRegistration, register } from "../../fixtures/ledger/ExternalGrants.ts"
import { issue, newClient, newOwner, newSubject, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { openTransaction } from "../../fixtures/postgres/Pools.ts"
import { sqlStateOf } from "../../fixtures/postgres/RawSql.ts"
import { rolesWith } from "../../fixtures/postgres/Roles.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"

const scopeNames = ["operations:read", "a", "b", "c"].map((name) => Scope.make(name))

/** The arguments of a registration. */
interface Said {
  readonly scopes: ReadonlyArray<Scope>
  /** Ends of a grant, in hours from now. */
  readonly hours: number
}

const said: fc.Arbitrary<Said> = fc.record({
  scopes: fc.uniqueArray(fc.constantFrom(...scopeNames)),
  hours: fc.integer({ min: -48, max: 48 })
})

const show = (id: GrantId) => Grants.use((grants) => grants.show(id))

const provision = (registration: GrantRegistration, { hours, scopes }: Said) =>
  SqlClient.SqlClient.use((sql) =>
    sql<{ readonly outcome: string }>`
      SELECT provision_grant(${registration.issuer}, ${registration.grant}, ${registration.client_id},
        ${registration.subject}, ${registration.resource_owner}, ${registration.provider}, ${scopes}::text[],
        now() + make_interval(hours => ${hours}), now(), gen_random_uuid()) AS outcome`
  ).pipe(Effect.map(([row]) => row!.outcome))

const isWider = (before: Grant, after: Grant): boolean =>
  before.scopes.every((scope) => after.scopes.includes(scope))
  && DateTime.isGreaterThanOrEqualTo(after.expires_at, before.expires_at)

describe("The provisioner", () => {
  /** The service of the writer, and the session of a stolen provisioner role. */
  const scene = Effect.gen(function*() {
    const { as } = yield* rolesWith()
    const writer = yield* Layer.build(Grants.layer.pipe(Layer.provideMerge(as("writer"))))
    const provisioner = yield* Layer.build(as("provisioner"))
    return { asWriter: Effect.provideContext(writer), asProvisioner: Effect.provideContext(provisioner) }
  })

  it.live("only widens and prolongs a grant, until an event registers it, in any order of its calls", () =>
    Effect.gen(function*() {
      const { asProvisioner, asWriter } = yield* scene
      const property = fc.asyncProperty(
        fc.array(said, { minLength: 1, maxLength: 6 }),
        fc.nat(6),
        (list, eventAt) =>
          Effect.runPromise(Effect.gen(function*() {
            const registration = newRegistration()
            const { grant_id } = yield* identify(registration)
            yield* asProvisioner(provision(registration, { scopes: [], hours: 0 }))
            let before = yield* asWriter(show(grant_id))
            for (const [n, next] of list.entries()) {
              if (n === eventAt) before = yield* asWriter(register({ ...registration, scopes: [scopeNames[1]!] }))
              assert.strictEqual(yield* asProvisioner(provision(registration, next)), "registered")
              const after = yield* asWriter(show(grant_id))
              if (n >= eventAt) assert.deepStrictEqual(after, before)
              assert.isTrue(isWider(before, after))
              const { expires_at: _, scopes: __, ...identity } = before
              assert.deepInclude(after, identity)
              before = after
            }
          }))
      )
      yield* Effect.promise(() => fc.assert(property, { numRuns: 40 }))
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("changes no grant of the gateway, of another identity, or one that was revoked or ended by an event", () =>
    Effect.gen(function*() {
      const { asProvisioner, asWriter } = yield* scene
      const { grant: issued } = yield* asWriter(issue())
      const registration = newRegistration({ learned_from: "token" })
      const shown = yield* asWriter(register(registration))
      const ended = newRegistration({ expires_at: later("-1 days"), scopes: [] })
      const end = yield* asWriter(register(ended))
      const revoked = newRegistration({ learned_from: "token" })
      const revocation = yield* asWriter(
        Effect.flatMap(register(revoked), ({ grant_id }) => Grants.use((grants) => grants.revoke(grant_id)))
      )
      const wide = { scopes: scopeNames, hours: 48 }
      const conflicting = [
        { subject: newSubject() },
        { resource_owner: newOwner() },
        { provider: ProviderName.make("broker") }
      ]
      for (const change of conflicting) {
        assert.strictEqual(yield* asProvisioner(provision({ ...registration, ...change }, wide)), "conflict")
      }
      // The id of a grant follows from its issuer and name: the gateway's own grants have neither.
      const { client_id, provider, resource_owner, subject } = issued
      const imitations = [newExternalId(), issued.grant_id as string as GrantRegistration["grant"]]
      for (const grant of imitations) {
        yield* asProvisioner(
          provision({ ...registration, grant, client_id, provider, resource_owner, subject }, wide)
        )
      }
      yield* asProvisioner(provision({ ...registration, client_id: newClient() }, wide))
      yield* asProvisioner(provision(ended, wide))
      yield* asProvisioner(provision(revoked, wide))
      for (const before of [issued, shown, end]) {
        assert.deepStrictEqual(yield* asWriter(show(before.grant_id)), before)
      }
      assert.deepStrictEqual((yield* asWriter(show(revocation.grant_id))).revoked_at, revocation.revoked_at)
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})

layer(PostgresLedger, { excludeTestServices: true })("The guard of grants", (it) => {
  /** Runs as a role that may update these columns of grants, and then rolls everything back. */
  const asRoleWith = <A, E>(
    columns: string,
    body: (
      run: (text: string, parameters?: ReadonlyArray<unknown>) => Effect.Effect<string | null>
    ) => Effect.Effect<A, E>
  ) =>
    Effect.scoped(Effect.gen(function*() {
      const transaction = yield* openTransaction
      yield* transaction("CREATE ROLE grants_guard_tester")
      yield* transaction(`GRANT SELECT, UPDATE (${columns}) ON grants TO grants_guard_tester`)
      yield* transaction("SET LOCAL ROLE grants_guard_tester")
      return yield* body((text, parameters) =>
        Effect.gen(function*() {
          yield* transaction("SAVEPOINT attempt")
          const outcome = yield* Effect.result(transaction(text, parameters))
          yield* transaction("ROLLBACK TO attempt")
          return outcome._tag === "Success" ? null : sqlStateOf(outcome.failure)
        }).pipe(Effect.orDie)
      )
    }))

  const changes = {
    "adds a scope": "scopes = scopes || ARRAY['more']",
    "moves the end to a later time": "expires_at = expires_at + interval '1 second'",
    "adds both": "scopes = ARRAY['more'] || scopes, expires_at = expires_at + interval '1 day'",
    "removes a scope": "scopes = '{}'",
    "replaces a scope": "scopes = ARRAY['more']",
    "moves the end to an earlier time": "expires_at = expires_at - interval '1 millisecond'",
    "adds a scope and moves the end to an earlier time": "scopes = scopes || ARRAY['more'], expires_at = now()"
  }
  const additions: ReadonlyArray<string> = ["adds a scope", "moves the end to a later time", "adds both"]
  const refused = "23001"

  it.effect("lets a role that may not revoke only add to grants of issuers", () =>
    Effect.gen(function*() {
      const { grant: issued } = yield* issue()
      const shown = yield* register(newRegistration({ learned_from: "token" }))
      const told = yield* register(newRegistration())
      yield* asRoleWith("scopes, expires_at", (run) =>
        Effect.gen(function*() {
          for (const [name, change] of Object.entries(changes)) {
            const changed = ({ grant_id }: Grant) => run(`UPDATE grants SET ${change} WHERE id = $1`, [grant_id])
            assert.strictEqual(yield* changed(shown), additions.includes(name) ? null : refused, name)
            assert.strictEqual(yield* changed(told), refused, name)
            assert.strictEqual(yield* changed(issued), refused, name)
          }
        }))
    }))

  it.effect("lets a role that may revoke change only grants of issuers: events narrow them too", () =>
    Effect.gen(function*() {
      const { grant: issued } = yield* issue()
      const shown = yield* register(newRegistration({ learned_from: "token" }))
      const told = yield* register(newRegistration())
      yield* asRoleWith("scopes, expires_at, revoked_at", (run) =>
        Effect.gen(function*() {
          for (const [name, change] of Object.entries(changes)) {
            const changed = ({ grant_id }: Grant) => run(`UPDATE grants SET ${change} WHERE id = $1`, [grant_id])
            assert.isNull(yield* changed(shown), name)
            assert.isNull(yield* changed(told), name)
            assert.strictEqual(yield* changed(issued), refused, name)
          }
        }))
    }))
})
