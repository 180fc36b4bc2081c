/**
 * A revocation takes effect when another process stops or a role is stolen. The tests stop processes at each of their
 * writes to the database, and take every lock that a role may take.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { inject } from "vitest"
import { GrantBlockers, GrantsBlocked } from "../../../src/services/GrantBlockers.ts"
import { type GrantRegistration, Grants } from "../../../src/services/Grants.ts"
import { result, run } from "../../fixtures/CommandLine.ts"
import {
  identify,
  isRevoked,
  newExternalId,
  newRegistration,
  register,
  revocations
} from "../../fixtures/ExternalGrants.ts"
import { issue, PostgresLedger, unique } from "../../fixtures/Ledger.ts"
import { anotherProcess, isSuperuser, openTransaction, untilWaiting } from "../../fixtures/Pools.ts"
import { sqlStateOf } from "../../fixtures/RawSql.ts"
import { rolesWith } from "../../fixtures/Roles.ts"
import { stoppingProxy } from "../../fixtures/StoppedConnections.ts"
import { Platform } from "../../fixtures/TestDatabase.ts"

/** Ends a hang. No result depends on how long a step takes. */
const inTime = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.timeoutOption(effect, "30 seconds"), (outcome) => {
    assert.isTrue(Option.isSome(outcome), "it was blocked without limit")
    return Effect.fromOption(outcome)
  })

/** Waits until the session is idle in the server, or waits for a lock. */
const untilAtRest = Effect.fnUntraced(function*(applicationName: string) {
  const sql = yield* SqlClient.SqlClient
  while (true) {
    const busy = yield* sql`
      SELECT 1 FROM pg_stat_activity
      WHERE application_name = ${applicationName} AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Lock'`
    if (busy.length === 0) return
  }
})

/**
 * Runs a change of grants in a process that stops after `writes` writes, and then an effect while it is stopped. Yields
 * whether the change ended before the process stopped.
 */
const whileStopped = <A, E, R>(
  writes: number,
  isolation: string,
  change: Effect.Effect<unknown, unknown, Grants>,
  effect: Effect.Effect<A, E, R>
) =>
  Effect.scoped(Effect.gen(function*() {
    const proxy = yield* stoppingProxy
    const applicationName = unique("stopped")
    const process = yield* Layer.build(anotherProcess({
      host: "127.0.0.1",
      port: proxy.port,
      maxConnections: 1,
      applicationName,
      startupParameters: { default_transaction_isolation: isolation }
    }))
    // Before the pool closes, because the pool waits for the statements on its connections.
    yield* Effect.addFinalizer(() => Effect.sync(proxy.cut))
    proxy.stopAfter(writes)
    const changing = yield* Effect.forkDetach(Effect.exit(Effect.provideContext(change, process)))
    while (!proxy.hasStopped() && changing.pollUnsafe() === undefined) yield* untilAtRest(applicationName)
    yield* untilAtRest(applicationName)
    yield* effect
    return !proxy.hasStopped()
  }))

layer(PostgresLedger, { excludeTestServices: true })("a process that stops", (it) => {
  for (const isolation of ["read committed", "serializable"]) {
    it.effect(
      `at any write of a grant provisioning blocks no revocation (${isolation})`,
      () =>
        Effect.gen(function*() {
          let isOver = false
          for (let writes = 0; !isOver; writes++) {
            for (const [way, revoke] of Object.entries(revocations)) {
              const registration = newRegistration({ learned_from: "token" })
              isOver = yield* whileStopped(
                writes,
                isolation,
                register(registration),
                Effect.gen(function*() {
                  yield* inTime(revoke(registration))
                  assert.isTrue(isRevoked(yield* inTime(register(registration))), `${way}, after ${writes} writes`)
                })
              )
            }
            assert.isBelow(writes, 20)
          }
        }),
      120_000
    )

    it.effect(`at any write of a revocation blocks no other revocation (${isolation})`, () =>
      Effect.gen(function*() {
        let isOver = false
        for (let writes = 0; !isOver; writes++) {
          const registration = newRegistration({ learned_from: "token" })
          yield* register(registration)
          isOver = yield* whileStopped(
            writes,
            isolation,
            revocations["its client"](registration),
            Effect.gen(function*() {
              yield* inTime(revocations["its subject"](registration))
              assert.isTrue(isRevoked(yield* inTime(register(registration))), `after ${writes} writes`)
            })
          )
          assert.isBelow(writes, 20)
        }
      }), 120_000)
  }

  it.effect("by SIGSTOP during a grant provisioning blocks no revocation, and registers no grant that reads when it continues", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const proxy = yield* stoppingProxy
      const [row] = yield* sql<{ readonly name: string }>`SELECT current_database() AS name`
      const { expires_at: _, ...registration } = newRegistration({ learned_from: "token" })
      const { password, username } = inject("postgres")
      const applicationName = unique("sigstop")
      const connection = {
        host: "127.0.0.1",
        port: proxy.port,
        username,
        ...password === undefined ? {} : { password },
        database: row!.name,
        applicationName
      }
      const child = yield* Effect.acquireRelease(
        Effect.sync(() =>
          spawn(process.execPath, ["test/system/attacks/registering.ts"], {
            env: { ...process.env, TASK: JSON.stringify({ connection, registration }) },
            stdio: ["ignore", "pipe", "inherit"]
          })
        ),
        (child) => Effect.sync(() => child.kill("SIGKILL"))
      )
      let output = ""
      child.stdout.setEncoding("utf8").on("data", (text: string) => output += text)
      const closed = once(child, "close")
      const stopped = yield* Deferred.make<void>()
      // The write that requests the lock: the process stops before the answer can arrive.
      proxy.onWrite = (bytes) => {
        if (Deferred.isDoneUnsafe(stopped) || !/provision_grant|advisory/.test(bytes.toString("latin1"))) return
        child.kill("SIGSTOP")
        Deferred.doneUnsafe(stopped, Effect.void)
      }
      yield* Deferred.await(stopped)
      yield* untilAtRest(applicationName)
      yield* inTime(revocations["its client"](registration))
      const shown = newRegistration(registration)
      assert.isTrue(isRevoked(yield* register(shown)))
      child.kill("SIGCONT")
      yield* Effect.promise(() => closed)
      assert.include(["live\n", "revoked\n", "StoreUnavailable\n"], output)
      assert.isTrue(isRevoked(yield* register(shown)))
    }))
})

/** The statements of a stolen role that registers a grant as the provisioner does. */
const provision = ({ client_id, grant, issuer, provider, resource_owner, subject }: GrantRegistration) =>
  [
    "SELECT provision_grant($1, $2, $3, $4, $5, $6, ARRAY['more'], now() + interval '1 year', now(), gen_random_uuid())",
    [issuer, grant, client_id, subject, resource_owner, provider]
  ] as const

describe("A stolen reader role", () => {
  it.live("can block no revocation, with any lock that it may take", () =>
    Effect.gen(function*() {
      const { as } = yield* rolesWith({ proofs: true })
      const Writer = Grants.layer.pipe(Layer.provideMerge(as("writer")))
      yield* Effect.gen(function*() {
        const registration = newRegistration()
        const { grant_id } = yield* register(registration)
        const { grant: issued } = yield* issue({ client_id: registration.client_id })
        const attempts = [
          "SELECT lock_grants(client_id, false) FROM grants",
          "SELECT * FROM grant_locks FOR SHARE",
          ...["clients", "provider_connections", "grants", "access_tokens", "operations"].flatMap((table) => [
            `SELECT FROM ${table} FOR KEY SHARE`,
            `SELECT FROM ${table} FOR UPDATE`,
            `LOCK TABLE ${table} IN ACCESS SHARE MODE`,
            `LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`
          ])
        ]
        yield* Effect.scoped(Effect.gen(function*() {
          const reader = yield* Layer.build(as("reader"))
          for (const attempt of attempts) {
            const outcome = yield* Effect.scoped(Effect.flatMap(openTransaction, (run) => Effect.flip(run(attempt))))
              .pipe(
                Effect.provideContext(reader)
              )
            assert.strictEqual(sqlStateOf(outcome), "42501", attempt)
          }
          // Every lock that it may take, in an open transaction, on all rows that a revocation changes.
          const run = yield* Effect.provideContext(openTransaction, reader)
          for (const table of ["clients", "provider_connections", "grants"]) yield* run(`SELECT id FROM ${table}`)
          yield* run("LOCK TABLE dpop_proofs IN ACCESS EXCLUSIVE MODE")
          for (const revoke of Object.values(revocations)) yield* inTime(revoke(registration))
          const grants = yield* Grants
          yield* inTime(grants.revoke(grant_id))
          yield* inTime(grants.revoke(issued.grant_id))
          yield* inTime(grants.setProviderConnected(issued.provider_connection_id, false))
          yield* inTime(grants.setClientActive(registration.client_id, false))
          assert.deepStrictEqual(yield* GrantBlockers.use((blockers) => blockers.list(Duration.zero)), [])
        }))
      }).pipe(Effect.provide(GrantBlockers.layer.pipe(Layer.provideMerge(Writer))))
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("can block no revocation by advisory locks, if the administrator left them to all roles", () =>
    Effect.gen(function*() {
      const { as, asSuperuser } = yield* rolesWith()
      if (yield* asSuperuser(isSuperuser)) {
        yield* asSuperuser(
          SqlClient.SqlClient.use((sql) =>
            sql.unsafe("GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO PUBLIC").unprepared
          )
        )
      }
      const registration = newRegistration()
      yield* Effect.scoped(Effect.gen(function*() {
        const run = yield* Effect.provideContext(openTransaction, yield* Layer.build(as("reader")))
        yield* run("SELECT pg_advisory_lock(hashtextextended($1, 0))", [
          `financial-agents-gateway/grants/${registration.client_id}`
        ])
        yield* run("SELECT pg_advisory_lock(n) FROM generate_series(-1000, 1000) n")
        yield* Effect.gen(function*() {
          yield* register({ ...registration, learned_from: "token" })
          assert.strictEqual(yield* inTime(revocations["its client"](registration)), 1)
        }).pipe(Effect.provide(Grants.layer.pipe(Layer.provide(as("writer")))))
      }))
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})

describe("A stolen provisioner role that keeps a transaction open", () => {
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
