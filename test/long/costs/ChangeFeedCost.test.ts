/**
 * The cost of a page of changes depends on the page alone: not on the size of the ledger, nor on the operations of other owners or on
 * what changed before or since.
 * The tests count the rows and scans of PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { ChangeQuery } from "../../../src/domain/ChangeFeed.ts"
import { readerParameters } from "../../../src/node/postgres/Pools.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import {
  beforeAllIds,
  type ChangePosition,
  grantReader,
  ledgerReader,
  openChangeToken,
  ownerDigest,
  sealChangeToken,
  startOfLedger
} from "../../../src/services/rules/changeToken.ts"
import { maxLookedAt, recordMark } from "../../../src/services/sql/reads/changeStatements.ts"
import { TokenCipher } from "../../../src/services/TokenCipher.ts"
import { isThorough, rounds } from "../../fixtures/Effort.ts"
import { feedReader } from "../../fixtures/ledger/Changes.ts"
import { fill } from "../../fixtures/ledger/FilledLedger.ts"
import { fillQueue } from "../../fixtures/ledger/FilledQueue.ts"
import { accept, issue, operationIn, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import { boundedScans, mostRowsRead, planModes, ReaderConnection } from "../../fixtures/postgres/Plans.ts"
import { anotherPool, isSuperuser, openTransaction } from "../../fixtures/postgres/Pools.ts"
import { once } from "../../fixtures/postgres/RawSql.ts"

const size = rounds(20_000, 100_000)

const placeAt = (position: number) => ({ position, id: beforeAllIds })

/** How many operations each transaction of the ledger made, and the places from which pages are read. */
interface Scene {
  readonly perTransaction: number
  readonly places: Readonly<Record<string, ChangePosition>>
}

const small: Scene = {
  perTransaction: 1,
  places: {
    "from the start": startOfLedger,
    "from the middle": { ...startOfLedger, high: placeAt(size / 2) },
    "to the end": { ...startOfLedger, high: placeAt(size - 5) },
    "with pending transactions": {
      ...startOfLedger,
      high: placeAt(size / 2),
      pending: [10, 11, 500, size / 4].map(placeAt)
    }
  }
}

/** 19 have fewer changes than a page with filters looks at: it ends behind them. */
const large: Scene = {
  perTransaction: 50,
  places: Object.fromEntries((isThorough ? [0, 1, 19, 50, 200] : [0, 19, 50]).map((count) => [
    `with ${count} pending transactions`,
    {
      ...startOfLedger,
      high: placeAt(size / 100),
      pending: Array.from({ length: count }, (_, n) => placeAt(n + 1))
    }
  ]))
}

const filters: Readonly<Record<string, Partial<ChangeQuery>>> = {
  "without filters": {},
  "of a state that most have": { states: ["succeeded"] },
  "of a state that few have": { states: ["failed", "indeterminate"] },
  "of a state that none has": { states: ["cancelled"] },
  "of a type that few have": { type: "transfer" },
  "of a type that none has": { type: "unknown" }
}

/** PostgreSQL may look at one end of an index while it plans. */
const planning = 1

/** One connection: its counters include every statement of the test. */
const session = (startupParameters: Record<string, string>) =>
  Layer.fresh(OperationFeed.layer).pipe(Layer.provideMerge(anotherPool({ maxConnections: 1, startupParameters })))

const Reader = Layer.provideMerge(Layer.fresh(OperationFeed.layer), ReaderConnection)

for (const { perTransaction, places } of [small, large]) {
  layer(PostgresLedger, { excludeTestServices: true, timeout: "5 minutes" })(
    `A page of the changes of ${size} operations, ${perTransaction} in each transaction`,
    (it) => {
      const ledger = once(Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const feed = yield* OperationFeed
        yield* sql`ALTER TABLE operations SET (autovacuum_enabled = off)`
        const large = yield* fill(1, size, perTransaction)
        // Behind the positions of the filled rows.
        yield* sql`UPDATE ledger_home SET system_identifier = system_identifier - 1`
        yield* Effect.flatMap(Queue, (queue) => queue.prepare)
        const { history } = yield* openChangeToken(yield* TokenCipher, yield* feed.now, ledgerReader)
        const newOwner = Effect.map(issue(), ({ grant, identity }) => ({ identity, owner: grant.resource_owner }))
        const [small, none] = [yield* newOwner, yield* newOwner]
        for (let n = 0; n < 3; n++) yield* accept(small.identity)
        return { large, small, none, history }
      }))
      const analyzed = once(Effect.tap(ledger, SqlClient.SqlClient.use((sql) => sql`ANALYZE operations`)))

      // In this order: statistics stay.
      for (
        const [statistics, scene] of [
          ["without statistics of the table", ledger],
          ["with statistics of the table", analyzed]
        ] as const
      ) {
        for (const [from, position] of Object.entries(places)) {
          for (const [which, filter] of Object.entries(filters)) {
            it.effect(`of a grant reads no more than the page needs: ${from}, ${which}, ${statistics}`, () =>
              Effect.gen(function*() {
                const { history, large, none, small } = yield* scene
                const query = { states: [], type: null, ...filter }
                const most = (page_size: number) => which === "without filters" ? page_size + 1 : maxLookedAt
                for (
                  const [{ identity, owner }, limit] of [[large, most], [small, () => 3], [none, () => 0]] as const
                ) {
                  const content = { history, owner: yield* ownerDigest(owner), position }
                  const after = yield* sealChangeToken(yield* TokenCipher, content, grantReader(identity, query))
                  yield* Effect.gen(function*() {
                    for (const page_size of [10, 100]) {
                      const read = OperationFeed.use((feed) => feed.since(identity, { ...query, page_size, after }))
                      assert.isAtMost(yield* mostRowsRead(read), limit(page_size) + planning)
                    }
                  }).pipe(Effect.provide(Reader))
                }
              }))
          }

          for (const [settings, layer] of [["of a reader", Reader], ["of the server", session({})]] as const) {
            it.effect(`of the whole ledger reads no more than the page needs: ${from}, with the settings ${settings}, ${statistics}`, () =>
              Effect.gen(function*() {
                const { history } = yield* scene
                const after = yield* sealChangeToken(yield* TokenCipher, { history, owner: "", position }, ledgerReader)
                yield* Effect.gen(function*() {
                  for (const limit of [10, 100]) {
                    const read = OperationFeed.use((feed) => feed.sinceInLedger(after, limit))
                    assert.isAtMost(yield* mostRowsRead(read), limit + 1 + planning)
                  }
                  const now = OperationFeed.use((feed) => feed.now)
                  assert.isAtMost(yield* mostRowsRead(now), 1 + planning)
                }).pipe(Effect.provide(layer))
              }))
          }
        }
      }
    }
  )
}

layer(PostgresLedger, { excludeTestServices: true })("A mark of the changes", (it) => {
  it.effect("costs the last change, also when most operations have one position, as after a load", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { grant } = yield* issue()
      yield* fillQueue(grant, { count: size })
      for (const statistics of ["without statistics", "with statistics"]) {
        yield* sql`DELETE FROM change_marks`
        const bound = { index: "operations_by_change", rows: 3 }
        for (const mode of planModes) {
          yield* boundedScans({ text: recordMark, parameters: [] }, mode, bound, `${statistics}, ${mode}`)
        }
        yield* sql`ANALYZE`
      }
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("A page of changes beside a long transaction", (it) => {
  it.effect("costs as much as its own changes, however many were made since the transaction began", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const run = yield* openTransaction
      yield* run("SELECT pg_current_xact_id()::text")
      const readers = [feedReader(identity), feedReader(null)]
      const change = operationIn(identity, "succeeded")
      const changes = Effect.all(Array.from({ length: 100 }, () => change), { concurrency: 4 })
      for (let n = 0; n < 3; n++) {
        yield* changes
        yield* Effect.gen(function*() {
          for (const reader of readers) {
            assert.lengthOf(yield* reader.drain(), 100)
            assert.isAtMost(yield* mostRowsRead(reader.page(100)), planning)
          }
        }).pipe(Effect.provide(Reader))
      }
    }).pipe(Effect.scoped))

  it.effect("computes the history of the ledger once", ({ skip }) =>
    Effect.gen(function*() {
      skip(!(yield* isSuperuser), "only a superuser may count calls")
      const { identity } = yield* issue()
      yield* Effect.all(Array.from({ length: 20 }, () => operationIn(identity, "accepted")), { concurrency: 4 })
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const calls = Effect.gen(function*() {
          yield* sql`SELECT pg_stat_force_next_flush()`
          const [row] = yield* sql<{ readonly calls: number }>`
            SELECT coalesce(sum(calls), 0)::int AS calls FROM pg_stat_user_functions WHERE funcname = 'ledger_history'`
          return row!.calls
        })
        for (const read of [feedReader(identity).page(20), feedReader(null).page(20)]) {
          const before = yield* calls
          assert.lengthOf((yield* read).operations, 20)
          assert.strictEqual((yield* calls) - before, 1)
        }
      }).pipe(Effect.provide(session({ ...readerParameters, track_functions: "pl" })))
    }))
})
