/** Every witness keeps the same rules: a real etcd, a real PostgreSQL, and the one in memory. */
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import * as path from "node:path"
import { makePostgresWitness } from "../../../src/cluster/witness/PostgresWitness.ts"
import type { WitnessStore } from "../../../src/cluster/witness/Witness.ts"
import type { ClaimBatch } from "../../../src/domain/Submission.ts"
import { type Cluster, port, username } from "../../../src/node/embedded/Cluster.ts"
import { makeMemoryWitness } from "../../fixtures/cluster/MemoryWitness.ts"
import { etcdServer, etcdWitness } from "../../fixtures/postgres/EtcdServer.ts"
import { newCluster, runServer } from "../../fixtures/postgres/OwnServer.ts"
import { openTransaction, untilWaiting } from "../../fixtures/postgres/Pools.ts"

const uuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`
const [first, second, third] = [uuid(1), uuid(2), uuid(3)]

const batch = (epoch: string, number: number, changes: Partial<ClaimBatch> = {}): ClaimBatch => ({
  epoch,
  worker: uuid(9),
  life: "0000000A-1764000000000000",
  provider: "first/bank?",
  batch: number,
  ...changes
})

const witnessOn = Effect.fnUntraced(function*({ socketDirectory: host }: Cluster) {
  const context = yield* Layer.build(PgClient.layer({ host, port, username, database: "postgres", maxConnections: 3 }))
  const sql = Context.get(context, SqlClient.SqlClient)
  return { sql, ...makePostgresWitness(sql, Effect.succeed("0")) }
})

const postgresWitness = Effect.gen(function*() {
  const cluster = yield* newCluster
  yield* runServer(cluster)
  return yield* witnessOn(cluster)
})

const stores = {
  "in memory": Effect.sync(makeMemoryWitness),
  etcd: Effect.flatMap(etcdServer(), ({ endpoint }) => etcdWitness({ endpoints: ["http://127.0.0.1:1", endpoint] })),
  PostgreSQL: Effect.map(postgresWitness, ({ store }) => store)
}

const refused = (step: Effect.Effect<boolean, unknown>, why: string) =>
  Effect.map(step, (isDone) => assert.isFalse(isDone, why))
const done = (step: Effect.Effect<boolean, unknown>, what: string) =>
  Effect.map(step, (isDone) => assert.isTrue(isDone, what))

const keepsTheRules = Effect.fnUntraced(function*({ batches, compact, epoch, fence, record }: WitnessStore) {
  assert.isNull(yield* epoch)
  yield* refused(record(batch(first, 1)), "no epoch")
  assert.isNull(yield* batches(first), "no epoch")
  yield* done(fence(null, first), "the first epoch")
  assert.deepStrictEqual(yield* batches(first), [])
  yield* refused(fence(null, second), "there is an epoch")
  yield* refused(fence(third, second), "another epoch")
  assert.strictEqual(yield* epoch, first)

  yield* done(record(batch(first, 9)), "a batch")
  yield* done(record(batch(first, 10)), "a later batch, of more digits")
  yield* refused(record(batch(first, 9)), "an earlier batch")
  yield* refused(record(batch(first, 10)), "the same batch")
  yield* refused(record(batch(second, 11)), "a batch of another epoch")
  yield* done(record(batch(first, 1, { provider: "other" })), "another provider")
  yield* done(record(batch(first, 2, { life: "0000000B-1" })), "another life")
  yield* done(record(batch(first, 3, { worker: uuid(8) })), "another worker")

  yield* done(fence(first, second), "a fence")
  yield* refused(record(batch(first, 12)), "a batch of the epoch before the fence")
  yield* done(record(batch(second, 1)), "a batch of the present epoch")
  assert.isNull(yield* batches(first), "an epoch before the fence")
  assert.sameDeepMembers([...(yield* batches(second))!], [
    batch(first, 10),
    batch(first, 1, { provider: "other" }),
    batch(first, 2, { life: "0000000B-1" }),
    batch(first, 3, { worker: uuid(8) }),
    batch(second, 1)
  ])

  const checkpoint = (of: string) => batch(of, 1, { worker: of, provider: "" })
  yield* refused(compact(checkpoint(first)), "an epoch before the fence")
  assert.lengthOf((yield* batches(second))!, 5)
  yield* done(compact(checkpoint(second)), "the present epoch")
  yield* done(compact(checkpoint(second)), "the present epoch, again")
  assert.sameDeepMembers([...(yield* batches(second))!], [batch(second, 1), checkpoint(second)])
})

/** Of many records and one fence at the same time, a record succeeds only if the fence then finds it. */
const isFenced = Effect.fnUntraced(function*({ batches, fence, record }: WitnessStore) {
  yield* fence(null, uuid(100))
  for (let round = 100; round < 130; round++) {
    const records = Array.from({ length: 6 }, (_, n) => batch(uuid(round), 1, { worker: uuid(1000 * round + n) }))
    const steps = [
      ...records.slice(0, 3).map((one) => Effect.map(record(one), (isRecorded) => ({ one, isRecorded }))),
      Effect.map(
        Effect.andThen(fence(uuid(round), uuid(round + 1)), batches(uuid(round + 1))),
        (found) => ({ found: found! })
      ),
      ...records.slice(3).map((one) => Effect.map(record(one), (isRecorded) => ({ one, isRecorded })))
    ]
    const ends = yield* Effect.all(steps, { concurrency: "unbounded" })
    const found = new Set(ends.flatMap((end) => "found" in end ? end.found.map(({ worker }) => worker) : []))
    for (const end of ends) if ("one" in end) assert.strictEqual(end.isRecorded, found.has(end.one.worker))
  }
})

for (const [name, makeStore] of Object.entries(stores)) {
  describe(`the witness ${name}`, () => {
    it.live("takes only later batches of the present epoch, and forgets only under a checkpoint", () =>
      Effect.scoped(Effect.flatMap(makeStore, keepsTheRules)))

    it.live("finds every batch that it took before a fence", () => Effect.scoped(Effect.flatMap(makeStore, isFenced)))
  })
}

describe("the witness in PostgreSQL", () => {
  it.live("records a batch only after a fence that is under way, and then refuses it", () =>
    Effect.gen(function*() {
      const { sql, store } = yield* postgresWitness
      yield* done(store.fence(null, first), "the first epoch")
      const fencing = yield* Effect.provideService(openTransaction, SqlClient.SqlClient, sql)
      yield* fencing("UPDATE witness_epoch SET epoch = $1", [second])
      const recording = yield* Effect.forkChild(store.record(batch(first, 1)))
      yield* Effect.raceFirst(
        Effect.provideService(untilWaiting(1), SqlClient.SqlClient, sql),
        Fiber.join(recording)
      )
      yield* fencing("COMMIT")
      yield* refused(Fiber.join(recording), "the epoch ended before the batch")
      yield* fencing("BEGIN")
    }).pipe(Effect.scoped))
})

describe("the witness in etcd", () => {
  it.live("signs in, and again after its token has expired", () =>
    Effect.gen(function*() {
      const { ctl, endpoint } = yield* etcdServer(["--auth-token-ttl", "1"])
      yield* ctl("user", "add", "root:secret")
      yield* ctl("user", "grant-role", "root", "root")
      yield* ctl("role", "add", "gateway")
      yield* ctl("role", "grant-permission", "gateway", "--prefix=true", "readwrite", "ledger/")
      yield* ctl("user", "add", "gateway:pass:word")
      yield* ctl("user", "grant-role", "gateway", "gateway")
      yield* ctl("auth", "enable")
      const user = { name: "gateway", password: Redacted.make("pass:word") }
      const { epoch, fence } = yield* etcdWitness({ endpoints: [endpoint], user })
      yield* done(fence(null, first), "signed in")
      yield* Effect.sleep("3 seconds")
      assert.strictEqual(yield* epoch, first)
      const wrong = yield* etcdWitness({
        endpoints: [endpoint],
        user: { ...user, password: Redacted.make("a wrong secret") }
      })
      const failure = yield* Effect.flip(wrong.epoch)
      assert.strictEqual(failure._tag, "WitnessUnavailable")
      assert.notInclude(failure.message, "secret")
    }).pipe(Effect.scoped))

  it.live("fails within seconds when etcd does not answer", () =>
    Effect.gen(function*() {
      const { endpoint, freeze, thaw } = yield* etcdServer()
      const { epoch, fence } = yield* etcdWitness({ endpoints: [endpoint] })
      yield* done(fence(null, first), "while it answers")
      yield* freeze
      const hurried = yield* etcdWitness({ endpoints: [endpoint], timeout: "1 second" })
      assert.strictEqual((yield* Effect.flip(hurried.epoch))._tag, "WitnessUnavailable")
      yield* thaw
      assert.strictEqual(yield* Effect.eventually(epoch), first)
    }).pipe(Effect.scoped))
})

describe("the witness in PostgreSQL", () => {
  it.live(
    "shows no batches when its server has become a standby, whose batches may be old",
    () =>
      Effect.gen(function*() {
        const cluster = yield* newCluster
        const { store } = yield* witnessOn(cluster)
        const whileUp = <A, E>(steps: Effect.Effect<A, E>) => Effect.scoped(Effect.andThen(runServer(cluster), steps))
        yield* whileUp(Effect.andThen(store.fence(null, first), store.record(batch(first, 1))))
        yield* Effect.sync(() => fs.writeFileSync(path.join(cluster.pgdata, "standby.signal"), ""))
        yield* whileUp(Effect.gen(function*() {
          assert.strictEqual(yield* Effect.eventually(store.epoch), first)
          assert.strictEqual((yield* Effect.flip(store.batches(first)))._tag, "WitnessUnavailable")
        }))
      }).pipe(Effect.scoped)
  )

  it.live("refuses the cluster of the ledger, and one that could forget commits", () =>
    Effect.gen(function*() {
      const { sql } = yield* postgresWitness
      const [row] = yield* sql<
        { readonly id: string }
      >`SELECT system_identifier::text AS id FROM pg_control_system()`
      const own = yield* Effect.flip(makePostgresWitness(sql, Effect.succeed(row!.id)).ready)
      assert.include(own.message, "cannot be its own witness")
      yield* sql`ALTER SYSTEM SET synchronous_commit = off`
      yield* sql`SELECT pg_reload_conf()`
      const { ready } = makePostgresWitness(sql, Effect.succeed("0"))
      const reloaded = sql<{ readonly is_off: boolean }>`SELECT current_setting('synchronous_commit') = 'off' AS is_off`
      while (!(yield* reloaded)[0]!.is_off) yield* Effect.sleep("10 millis")
      assert.include((yield* Effect.flip(ready)).message, "could forget commits")
    }).pipe(Effect.scoped))
})
