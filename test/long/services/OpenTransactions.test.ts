/**
 * A transaction that stays open blocks only the revocation of rows that it locked, and the operator can find and end
 * it. The tests keep transactions of a stolen provisioner role and of other sessions open.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { GrantsBlocked } from "../../../src/domain/operators/GrantsBlocked.ts"
import { GrantBlockers } from "../../../src/services/GrantBlockers.ts"
import { type GrantRegistration, Grants } from "../../../src/services/Grants.ts"
import {
  identify,
  isRevoked,
  newExternalId,
  newRegistration,
  register,
  revocations
} from "../../fixtures/ledger/ExternalGrants.ts"
import { issue, PostgresLedger, unique } from "../../fixtures/ledger/Ledger.ts"
import { inTime, openTransaction, untilWaiting } from "../../fixtures/postgres/Pools.ts"
import { rolesWith } from "../../fixtures/postgres/Roles.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { result, run } from "../../fixtures/processes/CommandLine.ts"

/** The statements of a stolen role that registers a grant as the provisioner does. */
const provision = ({ client_id, grant, issuer, provider, resource_owner, subject }: GrantRegistration) =>
  [
    "SELECT provision_grant($1, $2, $3, $4, $5, $6, ARRAY['more'], now() + interval '1 year', now(), gen_random_uuid())",
    [issuer, grant, client_id, subject, resource_owner, provider]
  ] as const

describe.concurrent("A stolen provisioner role that keeps a transaction open", () => {
  /** A grant that the role keeps locked, and another grant of the same client. */
  const scene = Effect.gen(function*() {
    const roles = yield* rolesWith()
    const services = yield* Layer.build(
      Layer.mergeAll(Grants.layer, GrantBlockers.layer).pipe(Layer.provideMerge(roles.as("writer")))
    )
    const inGateway = Effect.provideContext(services)
    const held = newRegistration({ learned_from: "token" })
    const free = { ...held, grant: newExternalId() }
    for (const registration of [held, free]) yield* inGateway(register(registration))
    const applicationName = unique("intruder")
    const intruder = yield* Layer.build(roles.as("provisioner", { applicationName }))
    const connection = yield* Effect.provideContext(SqlClient.SqlClient.use((sql) => sql.reserve), intruder)
    const run = (text: string, parameters: ReadonlyArray<unknown> = []) =>
      connection.executeUnprepared(text, parameters, undefined)
    yield* run("BEGIN")
    // The session no longer exists if the test has ended it.
    yield* Effect.addFinalizer(() => Effect.ignore(run("ROLLBACK")))
    const [{ pid }] = (yield* run("SELECT pg_backend_pid() AS pid")) as [{ readonly pid: number }]
    yield* run(...provision(held))
    const standing = (registration: GrantRegistration) =>
      Effect.flatMap(
        identify(registration),
        ({ grant_id }) => inGateway(Effect.map(Grants.use((grants) => grants.show(grant_id)), isRevoked))
      )
    return { ...roles, applicationName, free, held, inGateway, pid, standing }
  })

  it.live("blocks only the revocation of the grant that it locked, and the error names its session", () =>
    Effect.gen(function*() {
      const { applicationName, free, held, inGateway, nameOf, pid, standing } = yield* scene
      const blocked = yield* inTime(Effect.flip(inGateway(revocations["its client"](held))))
      assert.strictEqual(blocked._tag, "StoreUnavailable")
      assert.instanceOf(blocked.cause, GrantsBlocked)
      for (
        const part of [`pid ${pid}`, nameOf("provisioner"), applicationName, "since 20", "grants blockers --terminate"]
      ) {
        assert.include(String(blocked.cause), part)
      }
      assert.isTrue(yield* standing(free))
      assert.isFalse(yield* standing(held))
      // A later registration is refused by the revocation or by the lock of the stolen role.
      const later = { ...held, grant: newExternalId() }
      assert.isTrue(isRevoked(yield* inTime(inGateway(register(later)))))
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("is found and ended by the writer; then the revocation takes effect", () =>
    Effect.gen(function*() {
      const { applicationName, held, inGateway, nameOf, pid, standing } = yield* scene
      const blockers = yield* inGateway(GrantBlockers)
      const [blocker, ...others] = yield* blockers.list(Duration.zero)
      assert.deepStrictEqual(others, [])
      assert.deepInclude(blocker, {
        pid,
        role: nameOf("provisioner"),
        application_name: applicationName,
        state: "idle in transaction",
        blocks: [],
        waits_for: []
      })
      assert.isNotNull(blocker!.since)
      assert.deepStrictEqual(yield* blockers.list(Duration.days(1)), [])
      assert.deepStrictEqual(yield* blockers.terminate(Duration.days(1)), [])
      assert.deepStrictEqual(yield* blockers.terminate(Duration.zero), [{ ...blocker!, termination: "ended" }])
      assert.deepStrictEqual(yield* blockers.list(Duration.zero), [])
      assert.strictEqual(yield* inTime(inGateway(revocations["its client"](held))), 2)
      assert.isTrue(yield* standing(held))
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("is distinguished from the revocation that waits for it, which is not ended", () =>
    Effect.gen(function*() {
      const { asSuperuser, held, inGateway, pid, standing } = yield* scene
      // Like `Grants.revoke`, but without its time limit: the machine may be slow.
      const revoke = SqlClient.SqlClient.use((sql) =>
        sql.withTransaction(sql`UPDATE grants SET revoked_at = now() WHERE client_id = ${held.client_id}`)
      )
      const waiting = yield* Effect.forkChild(inGateway(revoke))
      yield* asSuperuser(untilWaiting(1))
      const found = yield* inGateway(GrantBlockers.use((blockers) => blockers.list(Duration.zero)))
      const [intruder, revocation] = [found.find((blocker) => blocker.pid === pid)!, found.find((b) => b.pid !== pid)!]
      assert.deepStrictEqual([intruder.blocks, intruder.waits_for], [[revocation.pid], []])
      assert.deepStrictEqual([revocation.blocks, revocation.waits_for], [[], [pid]])
      const ended = yield* inGateway(GrantBlockers.use((blockers) => blockers.terminate(Duration.zero)))
      assert.sameDeepMembers(ended.map(({ pid, termination }) => [pid, termination]), [
        [pid, "ended"],
        [revocation.pid, "waiting"]
      ])
      yield* inTime(Fiber.join(waiting))
      assert.isTrue(yield* standing(held))
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("is not ended by a role without that right, and the command reports it", () =>
    Effect.gen(function*() {
      const { as, nameOf } = yield* scene
      const outcome = yield* Effect.gen(function*() {
        const blockers = yield* GrantBlockers
        return yield* blockers.terminate(Duration.days(1))
      }).pipe(Effect.provide(GrantBlockers.layer.pipe(Layer.provide(as("reader")))))
      assert.lengthOf(outcome, 1)
      assert.deepInclude(outcome[0], {
        role: nameOf("provisioner"),
        since: null,
        state: null,
        termination: "not permitted"
      })
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("is named by the command line, and ended with --terminate", () =>
    Effect.gen(function*() {
      const { free, held, nameOf, pid, standing, urlAs } = yield* scene
      const env = { DATABASE_URL: urlAs("writer") }
      const revoke = ["grants", "revoke", "--client", held.client_id]
      const { code, stderr } = yield* run(revoke, env)
      assert.strictEqual(code, 1)
      assert.match(stderr, new RegExp(`^error: .*pid ${pid}, role ${nameOf("provisioner")}.*--terminate.*\\n$`))
      assert.isTrue(yield* standing(free))
      interface Listed {
        readonly blockers: ReadonlyArray<{ readonly pid: number; readonly termination?: string }>
      }
      const listed = yield* result<Listed>(["grants", "blockers", "--older-than", "1s"], env)
      assert.deepStrictEqual(listed.blockers.map(({ pid, termination }) => [pid, termination]), [[pid, undefined]])
      const ended = yield* result<Listed>(["grants", "blockers", "--older-than", "1s", "--terminate"], env)
      assert.deepStrictEqual(ended.blockers.map(({ pid, termination }) => [pid, termination]), [[pid, "ended"]])
      assert.deepStrictEqual(yield* result(revoke, env), { revoked: 1 })
      assert.isTrue(yield* standing(held))
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})

layer(PostgresLedger, { excludeTestServices: true })("a session that keeps rows of grants locked", (it) => {
  it.effect("blocks no change of grants without limit: each fails, and names the sessions that may hold the lock", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const { grant } = yield* issue()
      const changes = {
        revoke: grants.revoke(grant.grant_id),
        deactivate: grants.setClientActive(grant.client_id, false),
        disconnect: grants.setProviderConnected(grant.provider_connection_id, false)
      }
      yield* Effect.scoped(Effect.gen(function*() {
        const run = yield* openTransaction
        yield* run(
          "SELECT FROM grants g, clients c, provider_connections p WHERE g.id = $1 AND c.id = $2 AND p.id = $3 FOR SHARE",
          [grant.grant_id, grant.client_id, grant.provider_connection_id]
        )
        const failures = yield* Effect.forEach(
          Object.values(changes),
          (change) => inTime(Effect.flip(change as Effect.Effect<unknown, { readonly cause: unknown }>)),
          { concurrency: "unbounded" }
        )
        for (const failure of failures) {
          assert.instanceOf(failure.cause, GrantsBlocked)
          assert.include(String(failure.cause), "Sessions that may hold it: pid ")
        }
      }))
      for (const change of Object.values(changes)) yield* change as Effect.Effect<unknown, unknown>
      assert.deepInclude(yield* grants.show(grant.grant_id), { client_active: false, provider_connected: false })
    }))

  it.effect("makes registrations that follow a revocation wait behind it: they cannot delay it for ever", () =>
    Effect.gen(function*() {
      const registration = newRegistration({ learned_from: "token" })
      yield* Effect.scoped(Effect.gen(function*() {
        yield* register({ ...registration, grant: newExternalId() })
        const first = yield* openTransaction
        yield* first(...provision(registration))
        const revoking = yield* Effect.forkDetach(revocations["its client"](registration))
        yield* untilWaiting(1)
        const second = yield* Effect.forkDetach(
          register({ ...registration, grant: newExternalId(), learned_from: "event" })
        )
        yield* untilWaiting(2)
        yield* first("COMMIT")
        yield* inTime(Fiber.join(revoking))
        assert.isTrue(isRevoked(yield* inTime(Fiber.join(second))))
      }))
    }))
})
