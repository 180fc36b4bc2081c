/**
 * A ledger that went back is not worked on before its operations are held: a process with workers remembers how far it had come. The
 * servers are real: one is promoted and abandoned again, or its disk is put back.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Schedule, Scope } from "effect"
import * as fs from "node:fs"
import { makeHistoryGuard } from "../../../src/cluster/historyGuard.ts"
import { type Cluster, port } from "../../../src/node/embedded/Cluster.ts"
import { QueueServices } from "../../../src/node/GatewayParts.ts"
import { Database } from "../../../src/node/postgres/Database.ts"
import { LedgerHistory } from "../../../src/services/queue/LedgerHistory.ts"
import { accept } from "../../fixtures/ledger/Ledger.ts"
import { acceptSeveral, claimTerms, issueAtNewProvider } from "../../fixtures/ledger/Queue.ts"
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import { newLedger, runServer, servicesOn } from "../../fixtures/postgres/OwnServer.ts"
import { connectionTo, onServer, postmasterOf, replicatedServers } from "../../fixtures/postgres/ReplicatedServers.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { proxyTo } from "../../fixtures/processes/Proxy.ts"

/** An address that leads to one server after another, as a proxy in front of a cluster does. */
const switchingAddress = Effect.map(proxyTo({ port: 0 }), (proxy) => ({
  port: proxy.port,
  leadTo: ({ socketDirectory }: Cluster) =>
    Effect.sync(() => {
      proxy.target = { path: `${socketDirectory}/.s.PGSQL.${port}` }
      proxy.strike("reset")
    })
}))

/** The queue of a process that has just started. */
const newProcess = (address: number) =>
  Effect.map(
    Layer.build(
      Layer.fresh(QueueServices).pipe(
        Layer.provide(Layer.succeed(LedgerHistory, makeHistoryGuard)),
        Layer.provide(Layer.sync(Database, () => ({
          isEmbedded: false,
          dataDirectory: null,
          connection: { ...connectionTo({ socketDirectory: "127.0.0.1" } as Cluster), port: address }
        }))),
        Layer.provide(Platform)
      )
    ),
    (context) => Effect.flatMap(Queue, (queue) => Effect.succeed(queue)).pipe(Effect.provide(context), Effect.runSync)
  )

const on = <A, E, R>(cluster: Cluster, effect: Effect.Effect<A, E, R>) =>
  Effect.provide(effect, Layer.fresh(servicesOn(cluster))).pipe(Effect.scoped)

/** Looks every 10 ms in place of each second. */
const untilHeld = (cluster: Cluster, queue: Queue) =>
  Effect.andThen(
    queue.markChanges,
    onServer<{ readonly free: number }>(
      cluster,
      "SELECT count(*)::integer AS free FROM operations WHERE state = 'accepted' AND NOT hold_placed"
    )
  ).pipe(Effect.repeat({ until: ([row]) => row!.free === 0, schedule: Schedule.spaced("10 millis") }))

describe("A process with workers", () => {
  it.live(
    "claims nothing of a ledger that is back on an earlier timeline, and holds its operations",
    () =>
      Effect.gen(function*() {
        const { nameStandbys, primary, promote, standby } = yield* replicatedServers
        const { grant, identity } = yield* on(primary, issueAtNewProvider())
        yield* on(primary, acceptSeveral(identity, 30))
        const address = yield* switchingAddress
        yield* address.leadTo(primary)
        const queue = yield* newProcess(address.port)
        yield* queue.prepare
        yield* queue.markChanges

        yield* promote
        yield* nameStandbys("")
        yield* address.leadTo(standby)
        const onSuccessor = Effect.retry(queue.markChanges, { times: 5 })
        yield* onSuccessor
        // Accepted on the new timeline, claimed, and forgotten below.
        yield* on(standby, accept(identity))
        assert.lengthOf(yield* queue.claim(grant.provider, 10, claimTerms), 1)

        yield* address.leadTo(primary)
        const refused = Effect.flip(queue.claim(grant.provider, 1, claimTerms))
        // As those of many providers at the same time. None hides the others from the looks.
        const together = yield* Effect.all(Array.from({ length: 12 }, () => refused), { concurrency: "unbounded" })
        assert.deepStrictEqual([...new Set(together.map(({ _tag }) => _tag))], ["StoreUnavailable"])
        yield* Effect.retry(untilHeld(primary, queue), { times: 5 })
        const onceHeld = { schedule: Schedule.spaced("10 millis") }
        assert.deepStrictEqual(yield* Effect.retry(queue.claim(grant.provider, 10, claimTerms), onceHeld), [])
      }).pipe(Effect.scoped)
  )

  it.live("claims nothing of a disk that was put back, and works on after a crash", () =>
    Effect.gen(function*() {
      const cluster = yield* newLedger
      const address = yield* switchingAddress
      yield* address.leadTo(cluster)
      const queue = yield* newProcess(address.port)
      const start = Effect.gen(function*() {
        const life = yield* Scope.fork(yield* Scope.Scope)
        yield* Scope.provide(runServer(cluster), life)
        return Scope.close(life, Exit.void)
      })

      const stop = yield* start
      const { grant, identity } = yield* on(cluster, issueAtNewProvider())
      yield* on(cluster, accept(identity))
      yield* stop
      const backup = `${cluster.pgdata}.backup`
      fs.cpSync(cluster.pgdata, backup, { recursive: true })
      const stopAgain = yield* start
      yield* queue.markChanges
      assert.lengthOf(yield* queue.claim(grant.provider, 10, claimTerms), 1)
      yield* on(cluster, accept(identity))
      // An immediate shutdown: the server recovers as after a crash, which loses nothing.
      process.kill(postmasterOf(cluster), "SIGQUIT")
      yield* stopAgain
      const stopThird = yield* start
      assert.lengthOf(yield* Effect.retry(queue.claim(grant.provider, 10, claimTerms), { times: 5 }), 1)
      yield* stopThird

      fs.rmSync(cluster.pgdata, { recursive: true })
      fs.renameSync(backup, cluster.pgdata)
      fs.chmodSync(cluster.pgdata, 0o700)
      yield* start
      // The first operation looks unsent. A process that has just started cannot know better.
      const refused = Effect.retry(Effect.flip(queue.claim(grant.provider, 10, claimTerms)), { times: 5 })
      for (let n = 0; n < 3; n++) assert.strictEqual((yield* refused)._tag, "StoreUnavailable")
    }).pipe(Effect.scoped))
})
