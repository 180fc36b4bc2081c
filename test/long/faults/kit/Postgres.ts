/** A PostgreSQL server that can be killed: SIGKILL to the postmaster, and a restart on the same data directory. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { openCluster, port, prepareCluster, username } from "../../../../src/node/embedded/Cluster.ts"
import { type Postmaster, spawnPostmaster, stop, waitUntilGone } from "../../../../src/node/embedded/Postmaster.ts"
import { ensureDatabase, isAnswering } from "../../../../src/node/embedded/Server.ts"
import type { Target } from "../../../fixtures/processes/Proxy.ts"

/** Not the platform of the test fixtures, which needs a test runner. */
export const Platform = Layer.mergeAll(NodeServices.layer, NodeCrypto.layerDigest, NodeCrypto.layerSecureRandom)

/** A period in which the database answered no client, in milliseconds since 1970. */
export interface Outage {
  readonly from: number
  readonly to: number
}

const database = "chaos"

/** Runs until the scope closes, on a directory of its own. */
export const makePostgres = Effect.fnUntraced(function*(dataDirectory: string) {
  const cluster = yield* openCluster(dataDirectory)
  const installation = yield* prepareCluster(cluster, undefined)
  const outages: Array<Outage> = []
  let postmaster: Postmaster | null = null

  const atExit = () => {
    if (postmaster?.isAlive() === true) process.kill(postmaster.pid, "SIGKILL")
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => process.on("exit", atExit)),
    () => Effect.sync(() => process.off("exit", atExit))
  )
  yield* Effect.addFinalizer(() => Effect.suspend(() => postmaster === null ? Effect.void : stop(postmaster)))

  const spawn = Effect.uninterruptible(
    Effect.tap(spawnPostmaster(cluster, installation, { max_connections: "300" }), (spawned) =>
      Effect.sync(() => {
        postmaster = spawned
      }))
  )

  /** Returns when the server answers. The children of a killed server may hold the data briefly. */
  const start = Effect.gen(function*() {
    while (true) {
      const spawned = yield* spawn
      while (spawned.isAlive()) {
        if (yield* isAnswering(cluster, spawned.pid)) return
        yield* Effect.sleep(10)
      }
      yield* Effect.sleep(20)
    }
  }).pipe(Effect.timeout("1 minute"), Effect.orDie)

  yield* start
  yield* ensureDatabase(cluster.socketDirectory, database)

  return {
    connection: { host: cluster.socketDirectory, port, username, database },
    target: { path: `${cluster.socketDirectory}/.s.PGSQL.${port}` } satisfies Target,
    outages,
    /** Kills the server, and starts it again. Returns when the server answers. */
    crash: Effect.gen(function*() {
      const from = Date.now()
      atExit()
      if (postmaster !== null) yield* waitUntilGone(postmaster)
      yield* start
      outages.push({ from, to: Date.now() })
    })
  }
})

export type Postgres = Effect.Success<ReturnType<typeof makePostgres>>
