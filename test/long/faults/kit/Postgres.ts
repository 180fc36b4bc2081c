/** A PostgreSQL server that can be killed: SIGKILL to the postmaster, and a restart on the same data directory. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { openCluster, port, prepareCluster, username } from "../../../../src/node/embedded/Cluster.ts"
import { type Postmaster, spawnPostmaster, stop, waitUntilGone } from "../../../../src/node/embedded/Postmaster.ts"
import { answers, ensureDatabase, isAnswering } from "../../../../src/node/embedded/Server.ts"
import type { Target } from "../../../fixtures/processes/Proxy.ts"

/** Not the platform of the test fixtures, which needs a test runner. */
export const Platform = Layer.mergeAll(NodeServices.layer, NodeCrypto.layerDigest, NodeCrypto.layerSecureRandom)

/** A period in which the database answered no client, in milliseconds since 1970. */
export interface Outage {
  readonly from: number
  readonly to: number
}

const database = "chaos"

export interface PostgresOptions {
  /** Directory of the programs. By default those of `LocalPostgres`. */
  readonly programs?: string
  readonly settings?: Readonly<Record<string, string>>
  /** Whether the directory has a standby, and so the databases of its primary. */
  readonly isStandby?: boolean
}

/** Runs until the scope closes, on a directory of its own. */
export const makePostgres = Effect.fnUntraced(function*(dataDirectory: string, options: PostgresOptions = {}) {
  const cluster = yield* openCluster(dataDirectory)
  const installation = yield* prepareCluster(cluster, options.programs)
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
    Effect.tap(
      spawnPostmaster(cluster, installation, { max_connections: "300", ...options.settings }),
      (spawned) =>
        Effect.sync(() => {
          postmaster = spawned
        })
    )
  )

  /** Returns when the server answers. The children of a killed server may hold the data briefly. */
  const start = Effect.gen(function*() {
    while (true) {
      const spawned = yield* spawn
      while (spawned.isAlive()) {
        // The file of a standby never says that it is ready.
        if (yield* options.isStandby ? answers(cluster.socketDirectory) : isAnswering(cluster, spawned.pid)) return
        yield* Effect.sleep(10)
      }
      yield* Effect.sleep(20)
    }
  }).pipe(Effect.timeout("1 minute"), Effect.orDie)

  /** Returns when the server has ended. */
  const kill = Effect.suspend(() => {
    atExit()
    return postmaster === null ? Effect.void : waitUntilGone(postmaster)
  })

  yield* start
  if (options.isStandby !== true) yield* ensureDatabase(cluster.socketDirectory, database)

  return {
    connection: { host: cluster.socketDirectory, port, username, database },
    target: { path: `${cluster.socketDirectory}/.s.PGSQL.${port}` } satisfies Target,
    outages,
    kill,
    /** Kills the server, and starts it again. Returns when the server answers. */
    crash: Effect.gen(function*() {
      const from = Date.now()
      yield* kill
      yield* start
      outages.push({ from, to: Date.now() })
    })
  }
})

export type Postgres = Effect.Success<ReturnType<typeof makePostgres>>
