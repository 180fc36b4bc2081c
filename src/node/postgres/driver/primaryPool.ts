/**
 * One pool on several servers, of which it uses one: the first that can be reached and, if that is asked for, is not in recovery. The
 * driver takes one host (`Config.host` in `PgConnection.ts` of @effect/sql-pg 4.0.5), so each server has a pool of its own, which opens no
 * connection before it is used.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as PgPool from "@effect/sql-pg/PgPool"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { ConnectionError, SqlError } from "effect/sql/SqlError"

type Session = PgConnection.PgConnection

class InRecovery extends Error {
  override readonly message = "the server is in recovery"
}

const isInRecovery = ({ reason }: SqlError): boolean => reason.cause instanceof InRecovery

const inRecovery = () =>
  new SqlError({
    reason: new ConnectionError({
      cause: new InRecovery(),
      message: "the server is in recovery, and target_session_attrs refuses that",
      operation: "connect"
    })
  })

/** A refused user or password ends the search, as in libpq. */
const isWorthAnother = (error: SqlError): boolean => error.reason._tag !== "AuthenticationError"

/** The standby is rarely why there is no session. */
const firstReason = (before: SqlError | null, error: SqlError): SqlError =>
  before === null || isInRecovery(before) ? error : before

/**
 * Opens the pool. A failure to get a session moves all later statements to the next server, and the statement that met it tries as many
 * servers as there are. So does a statement that is interrupted while it waits for the first session: most callers have a
 * deadline that is shorter than `connect_timeout`. A failure of a statement that has begun moves nothing.
 */
export const openPrimaryPool = Effect.fnUntraced(function*(
  configs: readonly [PgPool.Config, ...ReadonlyArray<PgPool.Config>],
  mustBePrimary: boolean
): Effect.fn.Return<PgPool.PgPool, SqlError, Scope.Scope> {
  const pools = yield* Effect.forEach(configs, (config) => PgPool.make(config))
  let current = 0

  /** The next server, unless another statement has moved already. */
  const moveFrom = (server: number): void => {
    if (current === server) current = (server + 1) % pools.length
  }

  const servers = new WeakMap<Session, number>()

  /** Statements and leases of each server that have a session. */
  const lent = pools.map(() => 0)

  /** A hang-up of a client says nothing of a server whose sessions are in use. */
  const moveIfSilent = (server: number) =>
    Effect.sync(() => {
      if (lent[server] === 0) moveFrom(server)
    })

  // A primary becomes a standby only by a restart, which ends its sessions. A standby becomes a primary with its sessions.
  const primaries = new WeakSet<Session>()

  const requirePrimary = (session: Session): Effect.Effect<void, SqlError> =>
    Effect.flatMap(session.query("SELECT pg_is_in_recovery() AS in_recovery"), ({ rows: [row] }) => {
      if (row?.["in_recovery"] !== false) return Effect.fail(inRecovery())
      primaries.add(session)
      return Effect.void
    })

  const isReady = (session: Session) => !mustBePrimary || primaries.has(session)

  const getFrom = (server: number): Effect.Effect<Session, SqlError, Scope.Scope> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function*() {
        // A session that is refused goes back to its pool at once.
        const scope = yield* Scope.fork(yield* Scope.Scope)
        const session = yield* restore(pools[server]!.get).pipe(
          Effect.tap((session) => isReady(session) ? Effect.void : restore(requirePrimary(session))),
          Scope.provide(scope),
          Effect.onExit((exit) => Exit.isSuccess(exit) ? Effect.void : Scope.close(scope, exit)),
          Effect.onInterrupt(() => moveIfSilent(server))
        )
        servers.set(session, server)
        lent[server]!++
        yield* Scope.addFinalizer(scope, Effect.sync(() => lent[server]!--))
        return session
      })
    )

  /** Tries the servers in turn, until the statement or the lease of a session has begun. */
  const onServers = <A, E, R>(
    begin: (server: number) => { readonly tried: Effect.Effect<A, E | SqlError, R>; readonly hasBegun: () => boolean },
    failures = 0,
    before: SqlError | null = null
  ): Effect.Effect<A, E | SqlError, R> =>
    Effect.suspend(() => {
      const server = current
      const { hasBegun, tried } = begin(server)
      return Effect.catch(tried, (error): Effect.Effect<A, E | SqlError, R> => {
        // Before it began, only the pool or the check can have failed.
        if (hasBegun() || !isWorthAnother(error as SqlError)) return Effect.fail(error)
        moveFrom(server)
        const reason = firstReason(before, error as SqlError)
        return failures + 1 < pools.length ? onServers(begin, failures + 1, reason) : Effect.fail(reason)
      })
    })

  const get = onServers((server) => ({ tried: getFrom(server), hasBegun: () => false }))

  const use: PgPool.PgPool["use"] = (run) =>
    onServers((server) => {
      let hasBegun = false
      const begin = (session: Session) => {
        hasBegun = true
        if (!servers.has(session)) servers.set(session, server)
        lent[server]!++
        return Effect.ensuring(run(session), Effect.sync(() => lent[server]!--))
      }
      const used = pools[server]!.use((session) =>
        isReady(session) ? begin(session) : Effect.flatMap(requirePrimary(session), () => begin(session))
      )
      return {
        tried: Effect.onInterrupt(used, () => hasBegun ? Effect.void : moveIfSilent(server)),
        hasBegun: () => hasBegun
      }
    })

  return {
    [PgPool.TypeId]: PgPool.TypeId,
    config: configs[0],
    get,
    reserve: Effect.flatMap(get, ({ pin }) => pin),
    use,
    // Its user found the server unfit.
    invalidate: (session) =>
      Effect.forEach(pools, (pool, server) => {
        if (servers.get(session) === server) moveFrom(server)
        return pool.invalidate(session)
      }, { discard: true })
  }
})
