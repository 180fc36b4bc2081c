/**
 * Each acceptance signals its provider to every process that listens. The tests accept and listen on separate
 * connections to PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Queue, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { ProviderName } from "../../../src/domain/Grant.ts"
import { PgAcceptanceSignal } from "../../../src/node/postgres/PgAcceptanceSignal.ts"
import { AcceptanceSignal, HintSignal } from "../../../src/services/WorkSignals.ts"
import { accept, issue, PostgresServices } from "../../fixtures/ledger/Ledger.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"

const bank = ProviderName.make("bank")

/** The signal on connections of its own, as in another process. */
const signalOn = (database: string) =>
  Effect.map(
    Layer.build(Layer.fresh(PgAcceptanceSignal.pipe(Layer.provide(Layer.fresh(layerFor(database)))))),
    (context) => Effect.provideContext(AcceptanceSignal, context)
  ).pipe(Effect.flatten)

/** The signals that a listener receives after it started to listen. */
const hears = Effect.fnUntraced(function*(database: string) {
  const heard = yield* Queue.unbounded<ProviderName>()
  const { announced } = yield* signalOn(database)
  yield* Effect.forkScoped(Stream.runForEach(announced, (provider) => Queue.offer(heard, provider)))
  yield* untilListening(database, 1)
  return heard
})

const listeners = (database: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) =>
      sql<{ readonly pid: number }>`
      SELECT pid FROM pg_stat_activity WHERE datname = ${database} AND query LIKE 'LISTEN%' AND state = 'idle'`
  )

const untilListening = (database: string, count: number) =>
  Effect.repeat(listeners(database), { until: (rows) => rows.length >= count })

const onDatabase = <A, E>(body: (database: string) => Effect.Effect<A, E, SqlClient.SqlClient | ScopeOf>) =>
  Effect.scoped(
    Effect.flatMap(createDatabase(), (database) => Effect.provide(body(database), layerFor(database)))
  ).pipe(Effect.provide(Platform))

type ScopeOf = Effect.Services<ReturnType<typeof signalOn>>

describe("The acceptance signal over LISTEN and NOTIFY", () => {
  it.live("reaches every process that listens", () =>
    onDatabase((database) =>
      Effect.gen(function*() {
        const [one, two] = [yield* hears(database), yield* hears(database)]
        yield* untilListening(database, 2)
        const { announce } = yield* signalOn(database)
        yield* announce(bank)
        assert.deepStrictEqual([yield* Queue.take(one), yield* Queue.take(two)], [bank, bank])
      })
    ))

  it.live("is sent by the ledger for each acceptance, and not for a repetition", () =>
    onDatabase((database) =>
      Effect.gen(function*() {
        const announced: Array<string> = []
        const signal = Layer.succeed(AcceptanceSignal, {
          announce: (provider) => Effect.sync(() => void announced.push(provider)),
          announced: Stream.never
        })
        yield* Effect.gen(function*() {
          const { identity } = yield* issue({ provider: ProviderName.make("first-bank") })
          const key = "k" as never
          yield* accept(identity, { key })
          yield* accept(identity, { key })
          yield* Effect.flip(accept(identity, { key, payload: "other" }))
        }).pipe(
          Effect.provide(PostgresServices.pipe(Layer.provide(signal), Layer.provideMerge(Platform))),
          Effect.provide(layerFor(database))
        )
        assert.deepStrictEqual(announced, ["first-bank"])
      })
    ))

  it.live("arrives also from a process that ends directly after its acceptance", () =>
    onDatabase((database) =>
      Effect.gen(function*() {
        const heard = yield* hears(database)
        yield* Effect.scoped(Effect.flatMap(signalOn(database), ({ announce }) => announce(bank)))
        assert.strictEqual(yield* Queue.take(heard), bank)
      })
    ))

  it.live("arrives again after the connection was lost", () =>
    onDatabase((database) =>
      Effect.gen(function*() {
        const heard = yield* hears(database)
        const sql = yield* SqlClient.SqlClient
        const [{ pid }] = (yield* listeners(database)) as [{ readonly pid: number }]
        yield* sql`SELECT pg_terminate_backend(${pid})`
        yield* Effect.repeat(listeners(database), { until: ([row]) => row !== undefined && row.pid !== pid })
        const { announce } = yield* signalOn(database)
        yield* announce(bank)
        assert.strictEqual(yield* Queue.take(heard), bank)
      })
    ))

  it.live("carries hints on the same connection, and neither kind is taken for the other", () =>
    onDatabase((database) =>
      Effect.gen(function*() {
        const context = yield* Layer.build(
          Layer.fresh(PgAcceptanceSignal.pipe(Layer.provide(Layer.fresh(layerFor(database)))))
        )
        const heard = yield* Queue.unbounded<readonly [kind: string, provider: ProviderName]>()
        const listen = (kind: string, announced: Stream.Stream<ProviderName>) =>
          Effect.forkScoped(Stream.runForEach(announced, (provider) => Queue.offer(heard, [kind, provider])))
        yield* listen("acceptance", Context.get(context, AcceptanceSignal).announced)
        yield* listen("hint", Context.get(context, HintSignal).announced)
        yield* untilListening(database, 1)
        const elsewhere = yield* Layer.build(
          Layer.fresh(PgAcceptanceSignal.pipe(Layer.provide(Layer.fresh(layerFor(database)))))
        )
        yield* Context.get(elsewhere, HintSignal).announce(bank)
        assert.deepStrictEqual(yield* Queue.take(heard), ["hint", bank])
        yield* Context.get(elsewhere, AcceptanceSignal).announce(bank)
        assert.deepStrictEqual(yield* Queue.take(heard), ["acceptance", bank])
        assert.lengthOf(yield* listeners(database), 1, "one connection for both")
      })
    ))

  it.live("ignores payloads that are not names of providers", () =>
    onDatabase((database) =>
      Effect.gen(function*() {
        const heard = yield* hears(database)
        const sql = yield* SqlClient.SqlClient
        yield* sql`SELECT pg_notify('financial_agents_gateway_accepted', '')`
        yield* sql`SELECT pg_notify('financial_agents_gateway_accepted', 'no name')`
        yield* sql`SELECT pg_notify('financial_agents_gateway_accepted', 'bank')`
        assert.strictEqual(yield* Queue.take(heard), bank)
      })
    ))
})
