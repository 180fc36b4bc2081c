/**
 * No read, registration or request that starts after a committed revocation succeeds. The tests race several processes on
 * PostgreSQL, and hold a transaction of one open while another waits.
 */
import { assert, layer } from "@effect/vitest"
import { type Context, Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Grant, GrantIdentity } from "../../../../src/domain/Grant.ts"
import { OperationId } from "../../../../src/domain/Operation.ts"
import { type GrantRegistration, Grants } from "../../../../src/services/Grants.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import type { StoreUnavailable } from "../../../../src/services/StoreUnavailable.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import {
  identify,
  isRevoked,
  later,
  newIssuer,
  newRegistration,
  register,
  revocations
} from "../../../fixtures/ledger/ExternalGrants.ts"
import {
  accept,
  everything,
  issue,
  issueAgain,
  type Ledger,
  newClient,
  newKey,
  PostgresLedger,
  walk
} from "../../../fixtures/ledger/Ledger.ts"
import { anotherProcess, openTransaction, untilWaiting } from "../../../fixtures/postgres/Pools.ts"

type Process = Context.Context<Ledger>

const ways = {
  "its id": (registration: GrantRegistration) =>
    Effect.gen(function*() {
      const { grant_id } = yield* identify(registration)
      yield* Grants.use((grants) => grants.revoke(grant_id))
      return 1
    }),
  ...revocations
}

layer(PostgresLedger, { excludeTestServices: true })("a registration and a concurrent revocation", (it) => {
  it.effect("are ordered: a registration by a token waits only briefly for an earlier revocation, one by an event until it ends", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const registration = newRegistration()
      const another = yield* Layer.build(anotherProcess())
      const register = (learned_from: "event" | "token") =>
        Effect.provideContext(Grants.use((grants) => grants.register({ ...registration, learned_from })), another)
      const event = yield* sql.withTransaction(Effect.gen(function*() {
        yield* revocations["its client"](registration)
        const event = yield* Effect.forkDetach(register("event"))
        yield* untilWaiting(1)
        const { _tag, cause } = yield* Effect.flip(register("token")) as Effect.Effect<StoreUnavailable>
        assert.strictEqual(_tag, "StoreUnavailable")
        assert.propertyVal((cause as SqlError.SqlError).reason, "_tag", "LockTimeoutError")
        assert.isUndefined(event.pollUnsafe())
        return event
      }))
      assert.isTrue(isRevoked(yield* Fiber.join(event)))
      assert.isTrue(isRevoked(yield* register("token")))
    }))

  for (const isolation of ["read committed", "serializable"]) {
    const elsewhere = Layer.build(anotherProcess({ startupParameters: { default_transaction_isolation: isolation } }))

    for (const [way, revoke] of Object.entries(revocations)) {
      for (const first of ["revocation", "registration"] as const) {
        it.effect(`are ordered: the other one waits for an earlier ${first}, and the grant is revoked: of ${way} (${isolation})`, () =>
          Effect.gen(function*() {
            const sql = yield* SqlClient.SqlClient
            const registration = newRegistration()
            const another = yield* elsewhere
            const steps: ReadonlyArray<Effect.Effect<number | Grant, unknown, Grants>> = [
              revoke(registration),
              register(registration)
            ]
            const [earlier, later] = first === "revocation" ? steps : steps.toReversed()
            const waiting = yield* sql.withTransaction(Effect.gen(function*() {
              yield* earlier!
              const fiber = yield* Effect.forkDetach(Effect.provideContext(later!, another))
              yield* untilWaiting(1)
              return fiber
            }))
            const answer = yield* Fiber.join(waiting)
            if (typeof answer === "number") assert.strictEqual(answer, 1)
            assert.isTrue(isRevoked(typeof answer === "number" ? yield* register(registration) : answer))
          }))
      }
    }
  }

  it.effect("do not wait for those of other clients, and registrations do not wait for each other", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const registration = newRegistration()
      yield* register(registration)
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* register(registration)
        yield* Effect.gen(function*() {
          yield* register(newRegistration({ client_id: registration.client_id }))
          const other = newRegistration()
          yield* register(other)
          for (const revoke of Object.values(revocations)) yield* revoke(other)
        }).pipe(Effect.provideContext(yield* Layer.build(anotherProcess())))
      }))
    }))
})

type Read = (grant: GrantIdentity) => Effect.Effect<unknown, { readonly _tag: string }, OperationStore>

/** A request with a token, as the gateway serves it: grant provisioning if the grant is new, then the read. */
const readAsGateway = (
  read: Read,
  identity: GrantIdentity,
  registration: GrantRegistration
) =>
  Effect.gen(function*() {
    const first = yield* Effect.result(read(identity))
    if (first._tag === "Success" || first.failure._tag !== "GrantUnknown") return first
    yield* register({ ...registration, learned_from: "token", granted_at: later("-1 minutes") })
    return yield* Effect.result(read(identity))
  })

const reads: Readonly<Record<"list" | "find", Read>> = {
  list: (grant: GrantIdentity) => OperationStore.use((store) => store.list(grant, { ...everything, page_size: 1 })),
  find: (grant: GrantIdentity) =>
    OperationStore.use((store) => store.find(grant, OperationId.make("019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"))).pipe(
      // The grant may read: only the operation does not exist.
      Effect.catchTag("OperationNotFound", () => Effect.void)
    )
}

/** Registers many grants in one statement. */
const registerAll = Effect.fnUntraced(function*(registrations: ReadonlyArray<GrantRegistration>) {
  const sql = yield* SqlClient.SqlClient
  const { grant_id } = yield* register(newRegistration())
  const rows = yield* Effect.forEach(
    registrations,
    (registration) => Effect.map(identify(registration), (identity) => ({ ...registration, ...identity }))
  )
  yield* sql`INSERT INTO clients (id) SELECT unnest(${rows.map(({ client_id }) => client_id)}::text[])`
  yield* sql`
    INSERT INTO grants (id, client_id, resource_owner, subject, provider_connection_id, scopes, expires_at, issuer,
      external_id)
    SELECT r.id, r.client_id, g.resource_owner, r.subject, g.provider_connection_id, g.scopes, g.expires_at, r.issuer, r.name
    FROM unnest(
      ${rows.map(({ grant_id }) => grant_id)}::uuid[], ${rows.map(({ client_id }) => client_id)}::text[],
      ${rows.map(({ subject }) => subject)}::text[], ${rows.map(({ issuer }) => issuer)}::text[],
      ${rows.map(({ grant }) => grant)}::text[]
    ) AS r (id, client_id, subject, issuer, name)
    CROSS JOIN grants g WHERE g.id = ${grant_id}`
})

/**
 * Revokes while two other processes read, a few times each, and again as soon as the revocation is committed. Counts
 * the successful reads: those that started before the commit, and those after.
 */
const race = Effect.fnUntraced(function*(
  registration: GrantRegistration,
  revoke: (registration: GrantRegistration) => Effect.Effect<number, unknown, Grants>,
  [revoker, ...readers]: ReadonlyArray<Process>
) {
  const identity = yield* identify(registration)
  const committed = yield* Deferred.make<void>()
  const succeeded = { before: 0, after: 0 }
  const readUntilAfter = (read: Read, process: Process) =>
    Effect.gen(function*() {
      let startedAfter = false
      for (let left = 2; !startedAfter; left--) {
        if (left === 0) yield* Deferred.await(committed)
        startedAfter = Deferred.isDoneUnsafe(committed)
        const { _tag } = yield* readAsGateway(read, identity, registration)
        if (_tag === "Success") succeeded[startedAfter ? "after" : "before"]++
      }
    }).pipe(Effect.provideContext(process))
  const [, revoked] = yield* Effect.all(
    [
      readUntilAfter(reads.list, readers[0]!),
      Effect.tap(Effect.provideContext(revoke(registration), revoker!), Deferred.succeed(committed, undefined)),
      readUntilAfter(reads.find, readers[1]!)
    ],
    { concurrency: "unbounded" }
  )
  return { ...succeeded, revoked }
})

layer(PostgresLedger, { excludeTestServices: true })("no read that starts after a revocation was committed", (it) => {
  const grants = { known: rounds(120, 1600), unseen: rounds(30, 400) }

  for (const [way, revoke] of Object.entries(ways)) {
    const unseen = way === "its id" ? 0 : grants.unseen
    const known = grants.known + grants.unseen - unseen

    it.effect(`succeeds, when it is of ${way}: ${known} known grants, and ${unseen} that are seen meanwhile`, () =>
      Effect.gen(function*() {
        const issuer = newIssuer()
        const clients = Array.from({ length: known + unseen }, newClient)
        const registrations = clients.map((client_id) => newRegistration({ issuer, client_id }))
        yield* registerAll(registrations.slice(0, known))
        const processes = yield* Effect.forEach(
          Array.from({ length: 3 }),
          () => Layer.build(anotherProcess({ maxConnections: 4 }))
        )
        const results = yield* Effect.forEach(
          registrations,
          (registration) => race(registration, revoke, processes),
          { concurrency: 12 }
        )
        assert.deepStrictEqual(results.filter(({ after }) => after > 0), [])
        const reads = results.reduce((sum, { before }) => sum + before, 0)
        assert.isAbove(reads, known / 4, "too few reads were under way to race with")
        const revoked = new Set(results.slice(known).map(({ revoked }) => revoked))
        // On a busy machine, one order of registration and revocation may be rare: the races go on until both occurred.
        while (revoked.size === 1) {
          const more = yield* race(newRegistration({ issuer, client_id: newClient() }), revoke, processes)
          assert.strictEqual(more.after, 0)
          revoked.add(more.revoked)
        }
        if (unseen > 0) assert.sameMembers([...revoked], [0, 1], "both orders of registration and revocation occurred")
      }))
  }
})

/** Waits until an attempt to accept on a connection of this name has ended: one that just begins may see what is committed meanwhile. */
const untilAttempted = Effect.fnUntraced(function*(applicationName: string) {
  const sql = yield* SqlClient.SqlClient
  let attempts = 0
  while (attempts === 0) {
    const [row] = yield* sql<{ readonly attempts: number }>`
      SELECT count(*)::int AS attempts FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = ${applicationName} AND query LIKE '%NOWAIT%'
        AND state LIKE 'idle%'`
    attempts = row!.attempts
  }
})

layer(PostgresLedger, { excludeTestServices: true })("a request and a concurrent revocation", (it) => {
  const endings = {
    "a revocation": [
      "UPDATE grants SET revoked_at = now() WHERE id = $1",
      ({ grant_id }: Grant) => grant_id,
      "GrantRevoked"
    ],
    "a deactivation of its client": [
      "UPDATE clients SET active = false WHERE id = $1",
      ({ client_id }: Grant) => client_id,
      "ClientInactive"
    ],
    "a disconnection of its provider": [
      "UPDATE provider_connections SET connected = false WHERE id = $1",
      ({ provider_connection_id }: Grant) => provider_connection_id,
      "ProviderDisconnected"
    ]
  } as const

  for (const [name, [statement, idOf, refusal]] of Object.entries(endings)) {
    it.effect(`are ordered: a request waits for ${name} that started first, is refused, and records nothing`, () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const { grant, identity } = yield* issue()
        yield* Effect.gen(function*() {
          const accepting = yield* Effect.scoped(Effect.gen(function*() {
            const run = yield* openTransaction
            yield* run(statement, [idOf(grant)])
            const fiber = yield* Effect.forkDetach(Effect.result(accept(identity)))
            yield* untilAttempted("accepting")
            yield* run("COMMIT")
            return fiber
          }))
          const result = yield* Fiber.join(accepting)
          // On a very busy machine the request may time out before the change is committed.
          const { _tag } = result._tag === "Failure" ? result.failure : result
          assert.include([refusal, "StoreUnavailable"], _tag)
          assert.strictEqual((yield* Effect.flip(accept(identity)))._tag, refusal)
        }).pipe(Effect.provide(anotherProcess({ applicationName: "accepting" })))
        assert.isEmpty(yield* sql`SELECT 1 FROM operations WHERE client_id = ${grant.client_id}`)
      }))
  }

  it.effect("are ordered: a revocation waits for a request that started first, whose operation is recorded", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const here = yield* OperationLedger
      const request = { type: "payment", key: newKey(), payload: null }
      const { grant, identity } = yield* issue()
      yield* Effect.gen(function*() {
        const elsewhere = yield* Grants
        const [{ operation }, revoking] = yield* sql.withTransaction(Effect.gen(function*() {
          const accepted = yield* here.accept(identity, request)
          const fiber = yield* Effect.forkDetach(elsewhere.revoke(grant.grant_id))
          yield* untilWaiting(1)
          return [accepted, fiber] as const
        }))
        yield* Fiber.join(revoking)
        const { identity: renewed } = yield* issueAgain(grant)
        assert.deepStrictEqual((yield* walk(renewed, everything)).flat(), [operation])
      }).pipe(Effect.provide(anotherProcess()))
    }))
})
