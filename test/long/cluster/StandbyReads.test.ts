/**
 * With `DATABASE_READ_URL`, standbys serve reads, and no read is ever stale. The servers are real: a primary, its synchronous standby, and
 * an asynchronous standby that serves.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Cause, Context, Effect, Exit, Fiber, Layer, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import type { SqlError } from "effect/sql/SqlError"
import { forStandby } from "../../../src/cluster/standbys/StandbyReads.ts"
import { type Cluster, port, username } from "../../../src/node/embedded/Cluster.ts"
import { OwnVerifier, ReadServices, WriteServices } from "../../../src/node/GatewayParts.ts"
import type { Database } from "../../../src/node/postgres/Database.ts"
import { ReaderPool } from "../../../src/node/postgres/Pools.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { recordMark } from "../../../src/services/sql/reads/changeStatements.ts"
import { onPrimary, onPrimaryOrStandby } from "../../../src/services/sql/reads/readStatements.ts"
import { grantPrivileges } from "../../../src/services/sql/roles.ts"
import { sqlState } from "../../../src/services/StoreUnavailable.ts"
import { accept, drive, everything, issue } from "../../fixtures/ledger/Ledger.ts"
import {
  connectionTo,
  databaseOn,
  type Follower,
  onServer,
  replicatedServers,
  startFollower
} from "../../fixtures/postgres/ReplicatedServers.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"

const servicesWith = (database: Layer.Layer<Database>) =>
  Layer.fresh(Layer.mergeAll(ReadServices, WriteServices, OwnVerifier, ReaderPool)).pipe(
    Layer.provide(database),
    Layer.provideMerge(Platform)
  )

/** A primary with a synchronous standby, and another standby that serves reads. */
const threeServers = Effect.gen(function*() {
  const servers = yield* replicatedServers
  yield* servers.stopStandby
  const follower = yield* startFollower(servers.standby, servers.primary, "follower")
  yield* servers.startStandby
  const database = databaseOn(servers.primary, true, connectionTo(follower.cluster))
  return { servers, follower, services: servicesWith(database) }
})

class Scene extends Context.Service<Scene, Effect.Success<typeof threeServers>>()("test/Scene") {
  /** The servers, and the services of a process on them. */
  static readonly layer = Layer.unwrap(
    Effect.map(threeServers, (scene) => Layer.merge(Layer.succeed(Scene, scene), scene.services))
  )
}

const serverOf = "current_setting('unix_socket_directories')"

/** The server on which a statement with this condition runs. */
const runsOn = (condition: string) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(
      sql.unsafe<{ readonly here: string }>(`SELECT ${serverOf} AS here WHERE ${condition}`),
      ([row]) => row!.here
    )
  )

const poll = Schedule.spaced("50 millis")

const untilServedBy = ({ cluster }: Follower) =>
  Effect.repeat(runsOn(onPrimaryOrStandby), { until: (here) => here === cluster.socketDirectory, schedule: poll })

/** The last statements of the gateway's sessions on a server. */
const statementsOn = (cluster: Cluster) =>
  Effect.map(
    onServer<{ readonly query: string }>(
      cluster,
      "SELECT query FROM pg_stat_activity WHERE application_name = 'financial-agents-gateway'"
    ),
    (rows) => rows.map(({ query }) => query)
  )

const readsOperations = /LEFT JOIN (?:LATERAL \()?\s*(?:operations|SELECT)/u

/** What keeps the standby from following: at the begin of a round, and at its end. */
const delays: Readonly<
  Record<
    string,
    (
      follower: Follower,
      primary: Cluster
    ) => readonly [Effect.Effect<unknown, unknown>, Effect.Effect<unknown, unknown>]
  >
> = {
  "streams": () => [Effect.void, Effect.void],
  "has its replay paused": ({ cluster }) => [
    onServer(cluster, "SELECT pg_wal_replay_pause()"),
    onServer(cluster, "SELECT pg_wal_replay_resume()")
  ],
  "replays 30 ms late": ({ set }) => [
    set({ recovery_min_apply_delay: "30ms" }),
    set({ recovery_min_apply_delay: "0" })
  ],
  "replays 400 ms late": ({ set }) => [
    set({ recovery_min_apply_delay: "400ms" }),
    set({ recovery_min_apply_delay: "0" })
  ],
  "is cut off from the primary": ({ follow }, primary) => [follow(null), follow(primary)],
  "is stopped": ({ start, stop }) => [stop, start]
}

/** The end of what a primary has flushed. */
const flushedOf = (primary: Cluster) =>
  Effect.map(
    onServer<{ readonly at: string }>(primary, "SELECT pg_current_wal_flush_lsn()::text AS at"),
    ([row]) => row!.at
  )

const untilReplayed = (standby: Cluster, position: string) =>
  Effect.repeat(
    onServer<{ readonly has: boolean }>(standby, `SELECT pg_last_wal_replay_lsn() >= '${position}' AS has`),
    { until: ([row]) => row!.has, schedule: poll }
  )

/** Revokes a grant while it is used, and checks the reads that begin after each change. */
const revocationSeen = Effect.fnUntraced(function*(delay: string) {
  const store = yield* OperationStore
  const grants = yield* Grants
  const { identity } = yield* issue()
  const { operation } = yield* accept(identity)
  let isRevoked = false
  let stale = 0
  const reading = Effect.suspend(() => {
    const mustFail = isRevoked
    return Effect.map(Effect.exit(store.find(identity, operation.id)), (exit) => {
      if (mustFail && Exit.isSuccess(exit)) stale++
    })
  })
  const readers = yield* Effect.forEach(Array.from({ length: 8 }), () => Effect.forkChild(Effect.forever(reading)))
  assert.strictEqual((yield* store.find(identity, operation.id)).revision, 1, delay)
  yield* drive(operation, ["submitting"])
  const many = Array.from({ length: 20 })
  const find = store.find(identity, operation.id)
  const found = yield* Effect.forEach(many, () => find, { concurrency: "unbounded" })
  assert.deepStrictEqual([...new Set(found.map(({ revision }) => revision))], [2], delay)
  yield* grants.revoke(identity.grant_id)
  isRevoked = true
  const refused = yield* Effect.forEach(many, () => Effect.flip(find), { concurrency: "unbounded" })
  assert.deepStrictEqual([...new Set(refused.map(({ _tag }) => _tag))], ["GrantRevoked"], delay)
  yield* Effect.forEach(readers, Fiber.interrupt)
  assert.strictEqual(stale, 0, delay)
})

layer(Scene.layer, { excludeTestServices: true })("A standby that serves reads", (it) => {
  it.effect(
    "serves those of operations and tokens, and the primary serves all else",
    () =>
      Effect.gen(function*() {
        const { follower, servers } = yield* Scene
        const store = yield* OperationStore
        const feed = yield* OperationFeed
        const sql = yield* SqlClient.SqlClient
        const { identity } = yield* issue()
        const { operation } = yield* accept(identity)
        assert.strictEqual(yield* untilServedBy(follower), follower.cluster.socketDirectory)
        assert.strictEqual(yield* runsOn(onPrimary), servers.primary.socketDirectory)
        assert.strictEqual(yield* sql.withTransaction(runsOn(onPrimaryOrStandby)), servers.primary.socketDirectory)

        yield* store.find(identity, operation.id)
        yield* store.list(identity, { ...everything, states: ["accepted"] })
        const statements = yield* statementsOn(follower.cluster)
        assert.isAtLeast(statements.filter((query) => readsOperations.test(query)).length, 2)

        yield* feed.now
        yield* store.refused([identity])
        assert.isEmpty(
          (yield* statementsOn(follower.cluster)).filter((query) => /ledger_history|IS DISTINCT FROM/u.test(query))
        )
      })
  )

  it.effect("runs a statement that fails on a primary, and that of the primary on a standby", () =>
    Effect.gen(function*() {
      const { follower, servers } = yield* Scene
      const text = `SELECT 1 AS n WHERE ${onPrimaryOrStandby}`
      const standbys = forStandby(text)!
      const state = (cluster: Cluster, text: string) =>
        Effect.map(
          Effect.exit(onServer(cluster, text)),
          (exit) => Exit.isSuccess(exit) ? "runs" : sqlState(Cause.squash(exit.cause) as SqlError)
        )
      assert.strictEqual(yield* state(servers.primary, text), "runs")
      assert.strictEqual(yield* state(servers.primary, standbys), "55000")
      assert.strictEqual(yield* state(follower.cluster, text), "55000")
      assert.strictEqual(yield* state(follower.cluster, standbys), "runs")
      assert.isNull(forStandby(`SELECT 1 WHERE ${onPrimary}`))
    }))

  it.effect(
    "late, or not at all, serves no grant that was revoked before, and no older state",
    () =>
      Effect.gen(function*() {
        const { follower, servers } = yield* Scene
        for (const [delay, begin] of Object.entries(delays)) {
          yield* untilServedBy(follower)
          const [delayed, over] = begin(follower, servers.primary)
          yield* delayed
          for (let round = 0; round < 6; round++) yield* revocationSeen(delay)
          yield* over
        }
      })
  )

  it.effect(
    "serves no read on a timeline that no worker has marked",
    () =>
      Effect.gen(function*() {
        const { follower, servers } = yield* Scene
        yield* untilServedBy(follower)
        yield* onServer(servers.primary, "UPDATE change_marks SET timeline = timeline + 98")
        const here = yield* Effect.repeat(runsOn(onPrimaryOrStandby), { times: 3 })
        assert.strictEqual(here, servers.primary.socketDirectory)
        yield* onServer(servers.primary, "UPDATE change_marks SET timeline = timeline - 98")
      })
  )

  it.effect(
    "leaves a read that conflicts with its replay to the primary",
    () =>
      Effect.gen(function*() {
        const { follower, servers } = yield* Scene
        yield* onServer(servers.primary, "CREATE TABLE noted (n integer)")
        yield* follower.set({ max_standby_streaming_delay: "0" })
        // Vacuum conflicts with the questions of the test as well.
        const countOn = (text: string) =>
          onServer<{ readonly n: number }>(follower.cluster, text).pipe(Effect.sandbox, Effect.retry(poll))
        const conflicts = countOn("SELECT coalesce(sum(confl_lock), 0)::integer AS n FROM pg_stat_database_conflicts")
        const running = countOn(
          `SELECT count(*)::integer AS n FROM pg_stat_activity
           WHERE state = 'active' AND query LIKE '%FROM noted%' AND pid <> pg_backend_pid()`
        )
        const slowRead = SqlClient.SqlClient.use((sql) =>
          sql.unsafe<{ readonly here: string }>(
            `SELECT ${serverOf} AS here, CASE WHEN pg_is_in_recovery() THEN pg_sleep(0.5) END, (SELECT count(*) FROM noted)
             WHERE ${onPrimaryOrStandby}`
          )
        )
        const answered: Array<string> = []
        // On a busy machine the read may end before the standby replays the lock.
        const round = Effect.gen(function*() {
          yield* untilServedBy(follower)
          const slow = yield* Effect.forkChild(slowRead)
          yield* Effect.repeat(running, {
            until: ([row]) => row!.n > 0 || slow.pollUnsafe() !== undefined,
            schedule: Schedule.spaced("10 millis")
          })
          yield* onServer(servers.primary, "DO $$ BEGIN LOCK TABLE noted; END $$")
          const [row] = yield* Fiber.join(slow)
          answered.push(row!.here)
          // The session of a conflict reports it after a later statement.
          yield* runsOn(onPrimaryOrStandby)
          return yield* conflicts
        })
        yield* Effect.repeat(round, { until: ([row]) => row!.n > 0 })
        assert.include(answered, servers.primary.socketDirectory)
        yield* follower.set({ max_standby_streaming_delay: "30s" })
      })
  )

  it.effect(
    "whose sessions are silent leaves its reads to the primary within the deadline of a request",
    () =>
      Effect.gen(function*() {
        const { follower, servers } = yield* Scene
        yield* untilServedBy(follower)
        const sessions = yield* onServer<{ readonly pid: number }>(
          follower.cluster,
          "SELECT pid FROM pg_stat_activity WHERE application_name = 'financial-agents-gateway'"
        )
        const signal = (name: NodeJS.Signals) =>
          Effect.sync(() => {
            for (const { pid } of sessions) process.kill(pid, name)
          })
        const here = yield* signal("SIGSTOP").pipe(
          Effect.andThen(Effect.timeout(runsOn(onPrimaryOrStandby), "1800 millis")),
          Effect.ensuring(signal("SIGCONT"))
        )
        assert.strictEqual(here, servers.primary.socketDirectory)
        yield* untilServedBy(follower)
      })
  )
})

describe("A standby that serves reads, of servers that change", () => {
  it.live(
    "reads only, plans as the primary's sessions do, and needs no role but the reader",
    () =>
      Effect.gen(function*() {
        const { follower, servers, services } = yield* threeServers
        for (const role of ["owner", "writer", "provisioner", "reader LOGIN"]) {
          yield* onServer(servers.primary, `CREATE ROLE gateway_${role}`)
        }
        for (const statement of grantPrivileges()) yield* onServer(servers.primary, statement)
        const { identity, operation } = yield* Effect.gen(function*() {
          const { identity } = yield* issue()
          return { identity, ...yield* accept(identity) }
        }).pipe(Effect.provide(services))

        const asReader = (cluster: Cluster) => ({ ...connectionTo(cluster), username: "gateway_reader" })
        const reader = databaseOn(servers.primary, true, asReader(follower.cluster), "gateway_reader")
        yield* Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          const store = yield* OperationStore
          const settings = sql.unsafe<Record<string, unknown>>(
            `SELECT pg_is_in_recovery() AS standby, current_setting('default_transaction_read_only') AS read_only,
             current_setting('enable_sort') AS sort, current_setting('lock_timeout') AS lock, session_user::text AS role
           WHERE ${onPrimaryOrStandby}`
          )
          const [row] = yield* Effect.repeat(settings, { until: ([row]) => row!["standby"] === true, schedule: poll })
          assert.deepStrictEqual(row, {
            standby: true,
            read_only: "on",
            sort: "off",
            lock: "1s",
            role: "gateway_reader"
          })
          yield* store.find(identity, operation.id)
          const sessions = (yield* statementsOn(servers.primary)).length
          yield* store.list(identity, { ...everything, states: ["accepted"] })
          assert.isNotEmpty((yield* statementsOn(follower.cluster)).filter((query) => query.includes("unnest")))
          // Single reads and lists share a session of the primary.
          assert.lengthOf(yield* statementsOn(servers.primary), sessions)
        }).pipe(Effect.provide(servicesWith(reader)))
      }).pipe(Effect.scoped)
  )

  it.live(
    "shows nothing that no synchronous standby has, and nothing of a primary with a successor",
    () =>
      Effect.gen(function*() {
        const { follower, servers } = yield* Scene
        const store = yield* OperationStore
        const { identity } = yield* issue()
        const { operation } = yield* accept(identity)
        const found = Effect.flip(store.find(identity, operation.id))
        yield* untilServedBy(follower)
        yield* servers.stopStandby
        assert.strictEqual((yield* found)._tag, "StoreUnavailable")
        yield* servers.startStandby
        yield* untilServedBy(follower)
        yield* servers.promote
        assert.strictEqual((yield* found)._tag, "StoreUnavailable")
      }).pipe(Effect.provide(Scene.layer), Effect.scoped)
  )

  it.live(
    "of an earlier primary serves no read of its successor, though it has more of the WAL",
    () =>
      Effect.gen(function*() {
        const { follower, servers, services } = yield* threeServers
        // A standby of the next primary.
        yield* servers.stopStandby
        const successor = servers.standby
        yield* startFollower(successor, successor, "next")
        yield* servers.startStandby
        const { identity, operation } = yield* Effect.gen(function*() {
          const { identity } = yield* issue()
          return { identity, ...yield* accept(identity) }
        }).pipe(Effect.provide(services))

        yield* servers.promote
        yield* onServer(successor, "ALTER SYSTEM SET synchronous_standby_names = 'next'")
        yield* onServer(successor, "SELECT pg_reload_conf()")
        // As the first worker does.
        yield* onServer(successor, recordMark)
        yield* onServer(
          servers.primary,
          "SELECT pg_logical_emit_message(false, 'ahead', repeat('x', 1000000), true)::text"
        )
        yield* untilReplayed(follower.cluster, yield* flushedOf(servers.primary))

        yield* Effect.gen(function*() {
          const store = yield* OperationStore
          const grants = yield* Grants
          yield* grants.revoke(identity.grant_id).pipe(Effect.retry(poll))
          // The position alone proves nothing.
          yield* untilReplayed(follower.cluster, yield* flushedOf(successor))
          assert.strictEqual((yield* Effect.flip(store.find(identity, operation.id)))._tag, "GrantRevoked")
          assert.strictEqual(yield* runsOn(onPrimaryOrStandby), successor.socketDirectory)
          // The other one follows the successor.
          yield* follower.stop
        }).pipe(Effect.provide(servicesWith(databaseOn(successor, true, connectionTo(follower.cluster)))))
      }).pipe(Effect.scoped)
  )

  it.live("leaves its reads to the primary when it is promoted, and its host to another", () =>
    Effect.gen(function*() {
      const { follower, servers, services } = yield* threeServers
      yield* Effect.gen(function*() {
        yield* untilServedBy(follower)
        yield* onServer(follower.cluster, "SELECT pg_promote()")
        for (let n = 0; n < 20; n++) {
          assert.strictEqual(yield* runsOn(onPrimaryOrStandby), servers.primary.socketDirectory)
        }
      }).pipe(Effect.provide(services))

      const hosts = [follower.cluster, servers.standby].map(({ socketDirectory }) =>
        encodeURIComponent(socketDirectory)
      )
      const url = Redacted.make(`postgres:///postgres?user=${username}&port=${port}&host=${hosts.join(",")}`)
      const here = yield* Effect.repeat(runsOn(onPrimaryOrStandby), {
        until: (here) => here !== servers.primary.socketDirectory,
        schedule: poll
      }).pipe(Effect.provide(servicesWith(databaseOn(servers.primary, true, { url }))))
      assert.strictEqual(here, servers.standby.socketDirectory)
    }).pipe(Effect.scoped))
})
