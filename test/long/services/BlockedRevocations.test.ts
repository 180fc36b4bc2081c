/**
 * A revocation takes effect when another process stops or a role is stolen. The tests stop processes at each of their
 * writes to the database, and take every lock that a role may take.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Deferred, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { inject } from "vitest"
import { GrantBlockers } from "../../../src/services/GrantBlockers.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { isRevoked, newRegistration, register, revocations } from "../../fixtures/ledger/ExternalGrants.ts"
import { issue, PostgresLedger, unique } from "../../fixtures/ledger/Ledger.ts"
import { anotherProcess, inTime, isSuperuser, openTransaction } from "../../fixtures/postgres/Pools.ts"
import { sqlStateOf } from "../../fixtures/postgres/RawSql.ts"
import { rolesWith } from "../../fixtures/postgres/Roles.ts"
import { Platform, serverAddress } from "../../fixtures/postgres/TestDatabase.ts"
import { programOf } from "../../fixtures/processes/CommandLine.ts"
import { type Proxy, proxyTo } from "../../fixtures/processes/Proxy.ts"

/** Waits until the session is idle in the server, or waits for a lock. */
const untilAtRest = Effect.fnUntraced(function*(applicationName: string) {
  const sql = yield* SqlClient.SqlClient
  while (true) {
    const busy = yield* sql`
      SELECT 1 FROM pg_stat_activity
      WHERE application_name = ${applicationName} AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Lock'`
    if (busy.length === 0) return
    yield* Effect.sleep("1 millis")
  }
})

/**
 * Runs a change of grants in a process that stops after `writes` writes, and then an effect while it is stopped: no byte passes, and the
 * connection stays open, as after SIGSTOP. Yields whether the change ended before the process stopped.
 */
const whileStopped = <A, E, R>(
  writes: number,
  isolation: string,
  change: Effect.Effect<unknown, unknown, Grants>,
  effect: Effect.Effect<A, E, R>
) =>
  Effect.scoped(Effect.gen(function*() {
    const stop = { left: Infinity, isDone: false }
    const proxy: Proxy = yield* proxyTo(serverAddress(), () => () => {
      if (stop.left-- > 0) return
      stop.isDone = true
      proxy.strike("forgotten")
    })
    const applicationName = unique("stopped")
    const process = yield* Layer.build(anotherProcess({
      host: "127.0.0.1",
      port: proxy.port,
      maxConnections: 1,
      applicationName,
      startupParameters: { default_transaction_isolation: isolation }
    }))
    // Before the pool closes, because the pool waits for the statements on its connections.
    yield* Effect.addFinalizer(() => Effect.sync(() => proxy.strike("reset")))
    stop.left = writes
    const changing = yield* Effect.forkDetach(Effect.exit(Effect.provideContext(change, process)))
    while (!stop.isDone && changing.pollUnsafe() === undefined) yield* untilAtRest(applicationName)
    yield* untilAtRest(applicationName)
    yield* effect
    return !stop.isDone
  }))

layer(PostgresLedger, { excludeTestServices: true })("a process that stops", (it) => {
  for (const isolation of ["read committed", "serializable"]) {
    it.effect(
      `at any write of a grant provisioning blocks no revocation (${isolation})`,
      () =>
        Effect.gen(function*() {
          let isOver = false
          for (let writes = 0; !isOver; writes++) {
            const ended = yield* Effect.forEach(Object.entries(revocations), ([way, revoke]) => {
              const registration = newRegistration({ learned_from: "token" })
              return whileStopped(
                writes,
                isolation,
                register(registration),
                Effect.gen(function*() {
                  yield* inTime(revoke(registration))
                  assert.isTrue(isRevoked(yield* inTime(register(registration))), `${way}, after ${writes} writes`)
                })
              )
            }, { concurrency: "unbounded" })
            isOver = ended.every(Boolean)
            assert.isBelow(writes, 20)
          }
        })
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
      }))
  }

  it.effect("by SIGSTOP during a grant provisioning blocks no revocation, and registers no grant that reads when it continues", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      let onWrite: (bytes: Buffer) => void = () => {}
      const proxy = yield* proxyTo(serverAddress(), () => (bytes) => onWrite(bytes))
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
        Effect.map(programOf("test/system/services/registering.ts"), (program) =>
          spawn(process.execPath, [program], {
            env: { ...process.env, TASK: JSON.stringify({ connection, registration }) },
            stdio: ["ignore", "pipe", "inherit"]
          })),
        (child) => Effect.sync(() => child.kill("SIGKILL"))
      )
      let output = ""
      child.stdout.setEncoding("utf8").on("data", (text: string) => output += text)
      const closed = once(child, "close")
      const stopped = yield* Deferred.make<void>()
      // The write that requests the lock: the process stops before the answer can arrive.
      onWrite = (bytes) => {
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
