/**
 * With `DATABASE_SYNCHRONOUS=required`, a result counts only once the synchronous standby has all that it shows, for each reason why the
 * primary may forget to wait for the standby. Primary and standby are real, and the standby is stopped.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { confirmedResults } from "../../../src/cluster/confirmReplication.ts"
import type { Cluster } from "../../../src/node/embedded/Cluster.ts"
import { QueueServices, ReadServices, WriteServices } from "../../../src/node/GatewayParts.ts"
import * as DriverClient from "../../../src/node/postgres/driver/DriverClient.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { Readiness } from "../../../src/services/Readiness.ts"
import { issue, newKey } from "../../fixtures/ledger/Ledger.ts"
import { claimTerms } from "../../fixtures/ledger/Queue.ts"
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import {
  connectionTo,
  databaseOn,
  onServer,
  postmasterOf,
  type ReplicatedServers,
  replicatedServers,
  whileFrozen
} from "../../fixtures/postgres/ReplicatedServers.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"

const clients = { "of single statements": {}, "of shared connections": { multiplex: true } }

const settings = { maxConnections: 2, startupParameters: { statement_timeout: "500" } }

const noted = SqlClient.SqlClient.use((sql) =>
  Effect.map(sql<{ readonly n: number }>`SELECT count(*)::integer AS n FROM noted`, ([row]) => row!.n)
)

/** A table, and an insert into it that no standby has: its wait for the standby was cancelled. */
const unreplicatedInsert = Effect.fnUntraced(function*({ primary, stopStandby }: ReplicatedServers) {
  yield* onServer(primary, "CREATE TABLE noted (n integer)")
  yield* stopStandby
  yield* onServer(primary, "INSERT INTO noted VALUES (1)")
})

/** Resolves once a session of the primary waits for the standby in its COMMIT, or none does. */
const untilWaiting = (primary: Cluster, waiting: boolean) =>
  Effect.repeat(
    onServer<{ readonly waits: boolean }>(
      primary,
      "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep') AS waits"
    ),
    { schedule: Schedule.spaced("20 millis"), until: ([row]) => row!.waits === waiting }
  )

const confirmed = Layer.succeed(DriverClient.SessionResults, confirmedResults)

/** A client on the primary, confirmed or not. */
const on = (
  { primary }: Pick<ReplicatedServers, "primary">,
  kind: object = {},
  results: Layer.Layer<never> = confirmed
) =>
  Layer.fresh(DriverClient.layer({ ...connectionTo(primary), ...settings, ...kind }, "test")).pipe(
    Layer.provide(results)
  )

const isUnconfirmed = (error: unknown) =>
  assert.match(
    String((error as { readonly message?: string }).message),
    /no synchronous standby has confirmed|COMMIT waits/
  )

describe("A confirmed pool", () => {
  for (const [name, kind] of Object.entries(clients)) {
    it.live(`${name} tells what a standby has, and nothing else`, () =>
      Effect.gen(function*() {
        const servers = yield* replicatedServers
        yield* unreplicatedInsert(servers)
        // Visible on the primary, and unsaid by a failover.
        assert.strictEqual(yield* Effect.provide(noted, on(servers, kind, Layer.empty)), 1)
        yield* Effect.gen(function*() {
          isUnconfirmed(yield* Effect.flip(noted))
          const sql = yield* SqlClient.SqlClient
          isUnconfirmed(yield* Effect.flip(sql.withTransaction(noted)))
          isUnconfirmed(
            yield* Effect.flip(
              Effect.scoped(Effect.flatMap(sql.reserve, (connection) =>
                connection.execute("SELECT count(*) FROM noted", [], undefined)))
            )
          )
          yield* servers.startStandby
          assert.strictEqual(yield* noted, 1)
          assert.strictEqual(yield* sql.withTransaction(noted), 1)
        }).pipe(Effect.provide(on(servers, kind)))
      }).pipe(Effect.scoped))
  }

  it.live("asks for the position of the standby, and not for its presence", () =>
    Effect.gen(function*() {
      const servers = yield* replicatedServers
      const ask = Effect.provide(SqlClient.SqlClient.use((sql) => sql`SELECT 1`), on(servers))
      yield* ask
      yield* whileFrozen(
        servers.standby,
        Effect.gen(function*() {
          const [row] = yield* onServer<{ readonly n: number }>(
            servers.primary,
            "SELECT count(*)::integer AS n FROM pg_stat_replication WHERE sync_state = 'sync'"
          )
          assert.strictEqual(row!.n, 1)
          isUnconfirmed(yield* Effect.flip(ask))
        })
      )
      yield* Effect.retry(ask, Schedule.spaced("50 millis"))
    }).pipe(Effect.scoped))

  it.live("needs every standby by its name, so that no successor has another one", () =>
    Effect.gen(function*() {
      const servers = yield* replicatedServers
      yield* Effect.gen(function*() {
        const ask = SqlClient.SqlClient.use((sql) => sql`SELECT 1`)
        for (const names of ["FIRST 1 (standby)", "ANY 1 (\"standby\")", "1 ( standby )", "standby"]) {
          yield* servers.nameStandbys(names)
          yield* Effect.retry(ask, { times: 40, schedule: Schedule.spaced("50 millis") })
        }
        for (
          const [names, reason] of [
            ["", /is empty/],
            ["*", /names no standby/],
            ["ANY 1 (standby, other)", /fewer/],
            ["FIRST 1 (standby, other)", /fewer/],
            ["standby, other", /fewer/],
            ["ANY 2 (standby, other)", /does not have it/]
          ] as const
        ) {
          yield* servers.nameStandbys(names)
          const error = yield* Effect.flip(ask)
          isUnconfirmed(error)
          assert.match(error.message, reason)
        }
      }).pipe(Effect.provide(on(servers)))
    }).pipe(Effect.scoped))

  it.live("confirms nothing after a crash of the server, until a standby has it", () =>
    Effect.gen(function*() {
      const servers = yield* replicatedServers
      yield* unreplicatedInsert(servers)
      const checkpointer = Effect.map(
        SqlClient.SqlClient.use((sql) =>
          sql<{ readonly pid: number }>`SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'`
        ),
        ([row]) => row?.pid
      ).pipe(Effect.provide(on(servers, {}, Layer.empty)))
      const victim = yield* checkpointer
      const postmaster = postmasterOf(servers.primary)
      process.kill(victim!, "SIGKILL")
      // The server answers as before until it notices the crash.
      yield* checkpointer.pipe(
        Effect.flatMap((pid) => pid === undefined || pid === victim ? Effect.fail("not yet") : Effect.void),
        Effect.retry(Schedule.spaced("50 millis"))
      )
      assert.strictEqual(postmasterOf(servers.primary), postmaster)
      yield* Effect.gen(function*() {
        isUnconfirmed(yield* Effect.flip(noted))
        yield* servers.startStandby
        assert.strictEqual(yield* noted, 1)
      }).pipe(Effect.provide(on(servers, clients["of shared connections"])))
    }).pipe(Effect.scoped))

  it.live("keeps no connection for a COMMIT that waits for a standby", () =>
    Effect.gen(function*() {
      const servers = yield* replicatedServers
      yield* onServer(servers.primary, "CREATE TABLE noted (n integer)")
      yield* servers.stopStandby
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const insert = sql.withTransaction(sql`INSERT INTO noted VALUES (1)`)
        for (let n = 0; n < 4; n++) {
          const { message } = yield* Effect.flip(insert)
          assert.match(message, /COMMIT waits for a standby/)
        }
      }).pipe(Effect.provide(on(servers)))
    }).pipe(Effect.scoped))

  it.live("says what its owner lacks", () =>
    Effect.gen(function*() {
      const { primary } = yield* replicatedServers
      yield* onServer(primary, "CREATE ROLE owner")
      yield* onServer(primary, "ALTER FUNCTION replication_gap OWNER TO owner")
      const ask = Effect.provide(
        SqlClient.SqlClient.use((sql) => sql`SELECT 1`),
        on({ primary })
      )
      assert.match(String((yield* Effect.flip(ask)).reason.cause), /GRANT pg_read_all_stats TO owner/)
      yield* onServer(primary, "GRANT pg_read_all_stats TO owner")
      yield* ask
    }).pipe(Effect.scoped))
})

describe("A gateway whose statements must be confirmed", () => {
  it.live("reads, accepts and claims nothing that no standby has, and is not ready", () =>
    Effect.gen(function*() {
      const servers = yield* replicatedServers
      const services = Layer.fresh(Layer.mergeAll(ReadServices, WriteServices, QueueServices)).pipe(
        Layer.provide(databaseOn(servers.primary, true)),
        Layer.provideMerge(Platform)
      )
      yield* Effect.gen(function*() {
        const { grant, identity } = yield* issue()
        const ledger = yield* OperationLedger
        const store = yield* OperationStore
        const queue = yield* Queue
        const readiness = yield* Readiness
        const request = { type: "payment", key: newKey(), payload: {} }
        const { operation } = yield* ledger.accept(identity, request)
        assert.strictEqual((yield* store.find(identity, operation.id)).revision, 1)
        yield* readiness.check

        yield* servers.stopStandby
        const refused = [
          store.find(identity, operation.id),
          ledger.accept(identity, request),
          queue.claim(grant.provider, 1, claimTerms)
        ]
        for (const effect of refused) {
          yield* untilWaiting(servers.primary, false)
          const error = yield* Effect.raceFirst(
            Effect.flip<unknown, unknown, never>(effect),
            // A claim waits for the standby in its COMMIT, and its worker gives up.
            Effect.as(untilWaiting(servers.primary, true), null)
          )
          if (error !== null) assert.strictEqual((error as { readonly _tag: string })._tag, "StoreUnavailable")
        }
        yield* untilWaiting(servers.primary, false)
        assert.strictEqual((yield* Effect.flip(readiness.check)).reason, "not_replicated")
        // The claim happened on the primary alone. It was not told, so nothing is sent.
        const [row] = yield* onServer<{ readonly state: string }>(servers.primary, "SELECT state FROM operations")
        assert.strictEqual(row!.state, "submitting")

        // Claims that are not confirmed use up one further operation at most.
        yield* servers.startStandby
        const another = queue.claim(grant.provider, 1, claimTerms)
        for (let n = 0; n < 5; n++) yield* ledger.accept(identity, { ...request, key: newKey() })
        yield* servers.nameStandbys("")
        for (let n = 0; n < 4; n++) yield* Effect.flip(another)
        const [left] = yield* onServer<{ readonly n: number }>(
          servers.primary,
          "SELECT count(*)::integer AS n FROM operations WHERE state = 'submitting'"
        )
        assert.isAtMost(left!.n, 2)
        yield* servers.nameStandbys("standby")
        yield* Effect.retry(readiness.check, Schedule.spaced("50 millis"))
        assert.strictEqual((yield* store.find(identity, operation.id)).state, "submitting")
      }).pipe(Effect.provide(services))
    }).pipe(Effect.scoped))

  it.live(
    "is not ready on a standby, and says why, and on a ledger without the procedure",
    () =>
      Effect.gen(function*() {
        const { primary, standby } = yield* replicatedServers
        const reasonOn = (cluster: Cluster) =>
          Effect.flip(Readiness.use((readiness) => readiness.check)).pipe(
            Effect.map(({ reason }) => reason),
            Effect.provide(
              Layer.fresh(ReadServices).pipe(
                Layer.provide(databaseOn(cluster, true)),
                Layer.provideMerge(Platform)
              )
            )
          )
        assert.strictEqual(yield* reasonOn(standby), "in_recovery")
        yield* onServer(primary, "DROP PROCEDURE confirm_replication")
        assert.strictEqual(yield* reasonOn(primary), "migrations_missing")
      }).pipe(Effect.scoped)
  )
})
