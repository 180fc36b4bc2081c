/**
 * A failover that lost no sent claim is released without a person, and one that lost a claim is held. The tests promote a real
 * standby of PostgreSQL, and run the real workers with a witness in a real etcd or PostgreSQL.
 */
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import * as path from "node:path"
import { makePostgresWitness } from "../../../src/cluster/witness/PostgresWitness.ts"
import { type WitnessStore, WitnessUnavailable } from "../../../src/cluster/witness/Witness.ts"
import type { OperationId } from "../../../src/domain/Operation.ts"
import { port, username } from "../../../src/node/embedded/Cluster.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { makeMemoryWitness } from "../../fixtures/cluster/MemoryWitness.ts"
import { accept } from "../../fixtures/ledger/Ledger.ts"
import { acceptSeveral, claimTerms, issueAtNewProvider } from "../../fixtures/ledger/Queue.ts"
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import { etcdServer, etcdWitness } from "../../fixtures/postgres/EtcdServer.ts"
import { newCluster, newLedger, runServer, standbyOf, whileRunning } from "../../fixtures/postgres/OwnServer.ts"
import {
  checks,
  makeRecord,
  type Record,
  settle,
  until,
  untilCompared,
  untilSent,
  witnessedWorkers
} from "../../fixtures/postgres/WitnessedWorkers.ts"

const stores = {
  etcd: Effect.flatMap(etcdServer(), ({ endpoint }) => etcdWitness({ endpoints: [endpoint] })),
  PostgreSQL: Effect.gen(function*() {
    const cluster = yield* newCluster
    yield* runServer(cluster)
    const { socketDirectory: host } = cluster
    const context = yield* Layer.build(PgClient.layer({ host, port, username, database: "postgres" }))
    return makePostgresWitness(Context.get(context, SqlClient.SqlClient), Effect.succeed("0")).store
  })
}

const promote = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT pg_promote()`)

/** The copy then starts as the primary that it was. */
const removeStandbySignal = (pgdata: string) => fs.rmSync(path.join(pgdata, "standby.signal"))

const stateOf = (id: OperationId) => OperationLedger.use((ledger) => ledger.show(id))

/** A ledger whose workers have sent one operation with a witness, and which then accepted two more. */
const witnessedLedger = Effect.fnUntraced(function*(witness: WitnessStore, record: Record) {
  const primary = yield* newLedger
  const { grant, identity } = yield* whileRunning(primary, issueAtNewProvider())
  const { provider } = grant
  const ids = yield* whileRunning(
    primary,
    Effect.gen(function*() {
      const first = yield* Effect.scoped(Effect.gen(function*() {
        yield* witnessedWorkers(provider, witness, record)
        const { operation: { id } } = yield* accept(identity)
        yield* untilSent(record, [id])
        yield* settle
        return id
      }))
      return [first, ...yield* acceptSeveral(identity, 2)] as const
    })
  )
  return { primary, provider, identity, ids }
})

for (const [name, makeStore] of Object.entries(stores)) {
  describe(`with a witness in ${name}`, () => {
    it.live(
      "a failover that lost nothing is released, and its operations are sent once, without a command",
      () =>
        Effect.gen(function*() {
          const witness = yield* makeStore
          const record = makeRecord()
          const { ids, primary, provider } = yield* witnessedLedger(witness, record)
          const standby = yield* standbyOf(primary)
          yield* whileRunning(
            standby,
            Effect.scoped(Effect.gen(function*() {
              yield* promote
              yield* witnessedWorkers(provider, witness, record)
              yield* untilSent(record, ids)
              assert.deepInclude((yield* checks).at(-1), { result: "proven", released: 2, held: 0, missing: [] })
              assert.sameMembers(record.sent, [...ids])
              assert.deepStrictEqual(record.errors, [])
            }))
          )
        }).pipe(Effect.scoped)
    )
  })
}

// WitnessStores shows that the stores keep the same rules.
describe("with a witness in PostgreSQL", () => {
  it.live(
    "a failover that lost a sent claim is held, and the ledger names the missing batch",
    () =>
      Effect.gen(function*() {
        const witness = yield* stores.PostgreSQL
        const record = makeRecord()
        const { ids, primary, provider } = yield* witnessedLedger(witness, record)
        const standby = yield* standbyOf(primary)
        // The standby does not receive these claims.
        yield* whileRunning(
          primary,
          Effect.scoped(
            Effect.andThen(witnessedWorkers(provider, witness, record), untilSent(record, ids.slice(1)))
          )
        )
        yield* whileRunning(
          standby,
          Effect.gen(function*() {
            yield* promote
            yield* Effect.scoped(Effect.gen(function*() {
              yield* witnessedWorkers(provider, witness, record)
              yield* untilCompared
              const { operation: later } = yield* accept((yield* issueAtNewProvider({ provider })).identity)
              yield* untilSent(record, [later.id])
              for (const id of ids.slice(1)) assert.strictEqual((yield* stateOf(id)).state, "accepted")
              assert.sameMembers(record.sent, [...ids, later.id])
              const check = (yield* checks).at(-1)!
              assert.deepInclude(check, { result: "missing", released: 0, held: 2 })
              assert.isTrue(check.missing.some((batch) => batch.provider === provider && batch.batch === 1))
              assert.lengthOf(record.errors, 1)
              assert.include(record.errors[0], "Sent claims were lost")
              assert.include(record.errors[0], "First stop the server that was replaced")
              assert.include(record.errors[0], check.missing[0]!.worker)
            }))
          })
        )
        // The missing batches are accounted for: a later comparison has nothing more to hold.
        yield* whileRunning(
          standby,
          Effect.scoped(Effect.gen(function*() {
            yield* witnessedWorkers(provider, witness, record)
            yield* untilCompared
            assert.deepInclude((yield* checks).at(-1), { result: "proven", released: 0, held: 0 })
            for (const id of ids.slice(1)) assert.strictEqual((yield* stateOf(id)).state, "accepted", "still held")
          }))
        )
      }).pipe(Effect.scoped)
  )
})

describe("with a witness", () => {
  it.live(
    "a worker that was frozen between claim and witness sends nothing after a failover",
    () =>
      Effect.gen(function*() {
        const witness = makeMemoryWitness()
        const record = makeRecord()
        const { ids, primary, provider } = yield* witnessedLedger(witness, record)
        const standby = yield* standbyOf(primary)
        const worker = crypto.randomUUID()
        const claims = yield* whileRunning(
          primary,
          Effect.gen(function*() {
            yield* Effect.scoped(Effect.andThen(
              // Without an adapter for the provider, these workers only compare.
              witnessedWorkers((yield* issueAtNewProvider()).grant.provider, witness, record),
              untilCompared
            ))
            return yield* Effect.flatMap(Queue, (queue) =>
              queue.claim(provider, 1, { ...claimTerms, recorded_by: worker }))
          })
        )
        assert.deepInclude(claims[0]!.batch, { worker, provider, batch: 1 })
        yield* whileRunning(
          standby,
          Effect.scoped(Effect.gen(function*() {
            yield* promote
            yield* witnessedWorkers(provider, witness, record)
            yield* untilCompared
          }))
        )
        assert.isFalse(yield* witness.record(claims[0]!.batch!), "the epoch of its claim has ended")
        assert.lengthOf(new Set(record.sent), record.sent.length)
        assert.include(ids, claims[0]!.operation.id)
      }).pipe(Effect.scoped)
  )

  it.live("a restored copy of the disk, on the same timeline, is held without a command", () =>
    Effect.gen(function*() {
      const witness = makeMemoryWitness()
      const record = makeRecord()
      const { ids, primary, provider } = yield* witnessedLedger(witness, record)
      const copy = yield* standbyOf(primary)
      yield* whileRunning(
        primary,
        Effect.scoped(Effect.andThen(witnessedWorkers(provider, witness, record), untilSent(record, ids)))
      )
      yield* Effect.sync(() => removeStandbySignal(copy.pgdata))
      yield* whileRunning(
        copy,
        Effect.scoped(Effect.gen(function*() {
          yield* witnessedWorkers(provider, witness, record)
          yield* untilCompared
          assert.deepInclude((yield* checks).at(-1), { result: "missing", held: 2 })
          for (const id of ids.slice(1)) assert.strictEqual((yield* stateOf(id)).state, "accepted")
          assert.sameMembers(record.sent, [...ids])
        }))
      )
    }).pipe(Effect.scoped))

  it.live("an outage of the witness stops sends, returns claims, and nothing else", () =>
    Effect.gen(function*() {
      const record = makeRecord()
      const working = makeMemoryWitness()
      let isAway = false
      const down = new WitnessUnavailable({ reason: "down" })
      const witness: WitnessStore = {
        ...working,
        epoch: Effect.suspend(() => isAway ? Effect.fail(down) : working.epoch),
        record: (batch) => Effect.suspend(() => isAway ? Effect.fail(down) : working.record(batch))
      }
      const primary = yield* newLedger
      yield* whileRunning(
        primary,
        Effect.scoped(Effect.gen(function*() {
          const { grant, identity } = yield* issueAtNewProvider()
          yield* witnessedWorkers(grant.provider, witness, record)
          yield* untilCompared
          isAway = true
          const ids = yield* acceptSeveral(identity, 3)
          const sql = yield* SqlClient.SqlClient
          const returned = sql<{ readonly id: OperationId }>`SELECT id FROM operations WHERE return_reason IS NOT NULL`
          const underWay = sql`SELECT 1 FROM operations WHERE state = 'submitting' AND return_reason IS NULL`
          yield* until(
            Effect.map(Effect.all([returned, underWay]), ([back, away]) => back.length > 0 && away.length === 0)
          )
          // After its first failure the worker asks the witness before it claims.
          const { length } = yield* returned
          yield* Effect.sleep("1 second")
          assert.lengthOf(yield* returned, length)
          assert.deepStrictEqual(record.sent, [])
          isAway = false
          yield* untilSent(record, ids)
          assert.sameMembers(record.sent, [...ids])
        }))
      )
    }).pipe(Effect.scoped))
})
