/**
 * How far the outbox has come: a change token, in a table of its own. One publisher at a time holds the position, by a lease that
 * the clock of the database measures. The roles of docs/postgresql.md may use no advisory locks, so the lease is in the row.
 */
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { ChangeToken } from "financial-agents-gateway/services/OperationFeed"
import { orUnavailable, type StoreUnavailable } from "financial-agents-gateway/services/StoreUnavailable"
import { randomUUID } from "node:crypto"

/** Another publisher may hold the position now. */
export class PositionLost extends Schema.TaggedError<PositionLost>()("PositionLost", {}) {}

/** The position, held by this publisher. */
export interface HeldPosition {
  /** The stored token. Null: the start of the ledger. */
  readonly token: ChangeToken | null
  /** Stores a token. All changes before it must be acknowledged. */
  readonly store: (token: ChangeToken) => Effect.Effect<void, PositionLost | StoreUnavailable>
  /** Extends the lease for ever. If it cannot, it fails while a quarter of the lease is left. */
  readonly keep: Effect.Effect<never, PositionLost | StoreUnavailable>
  /**
   * Runs the effect for a quarter of the lease at most, so that it ends before another publisher begins. An interruption waits
   * for the end.
   */
  readonly whileHeld: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E | PositionLost | Cause.TimeoutError>
}

const monotonicMillis = Effect.map(
  Effect.flatMap(Clock.Clock, (clock) => clock.monotonicTimeNanos),
  (nanos) => Number(nanos) / 1_000_000
)

/** Creates the table if it is missing. The check comes first because CREATE requires a right that is needed only once. */
const makeTable = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const known = yield* sql`SELECT 1 FROM pg_class WHERE oid = to_regclass('outbox_positions')`
  if (known.length === 0) {
    yield* sql`CREATE TABLE IF NOT EXISTS outbox_positions (
      name text PRIMARY KEY, token text, holder uuid, held_until timestamptz NOT NULL)`
  }
}).pipe(
  // PostgreSQL may refuse one of two publishers that create it at once.
  Effect.retry({ times: 1 }),
  orUnavailable
)

/** The statements on the row of a position. Those of a holder yield whether it still is the holder. `lease` in milliseconds. */
const makeStatements = Effect.fnUntraced(function*(name: string, lease: number) {
  const sql = yield* SqlClient.SqlClient
  const heldUntil = sql`clock_timestamp() + ${lease}::float8 * interval '1 millisecond'`
  const update = (holder: string, change: ReturnType<typeof sql.unsafe>) =>
    orUnavailable(Effect.map(
      sql`UPDATE outbox_positions SET ${change} WHERE name = ${name} AND holder = ${holder}::uuid RETURNING name`,
      ({ length }) => length === 1
    ))
  return {
    /** No row: another publisher has the lease. */
    take: (holder: string) =>
      orUnavailable(sql<{ readonly token: ChangeToken | null }>`
        INSERT INTO outbox_positions AS p (name, holder, held_until) VALUES (${name}, ${holder}::uuid, ${heldUntil})
        ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
          WHERE p.holder IS NULL OR p.held_until < clock_timestamp()
        RETURNING token`),
    extend: (holder: string) => update(holder, sql`held_until = ${heldUntil}`),
    store: (holder: string, token: ChangeToken) => update(holder, sql`token = ${token}`),
    release: (holder: string) => update(holder, sql`holder = NULL`)
  }
})

const orLost = <E>(isHolder: Effect.Effect<boolean, E>): Effect.Effect<void, E | PositionLost> =>
  Effect.flatMap(isHolder, (is) => is ? Effect.void : Effect.fail(new PositionLost()))

const make = Effect.gen(function*() {
  const name = yield* Config.NonEmptyString("OUTBOX_NAME").pipe(Config.withDefault("outbox"))
  const lease = Duration.toMillis(
    yield* Config.Duration("OUTBOX_LEASE").pipe(Config.withDefault(Duration.seconds(20)))
  )
  const statements = yield* makeStatements(name, lease)

  const heldBy = (holder: string, token: ChangeToken | null, end: number) => {
    let until = end
    const extend = Effect.gen(function*() {
      const start = yield* monotonicMillis
      yield* orLost(statements.extend(holder))
      until = start + lease
    })
    const held: HeldPosition = {
      token,
      store: (next) => orLost(statements.store(holder, next)),
      // A quarter to wait, and a quarter for the statement before and for this one: so a quarter is left.
      keep: extend.pipe(
        Effect.retry({ schedule: Schedule.spaced(lease / 20), while: ({ _tag }) => _tag === "StoreUnavailable" }),
        Effect.timeoutOrElse({ duration: lease / 4, orElse: () => Effect.fail(new PositionLost()) }),
        Effect.delay(lease / 4),
        Effect.forever
      ),
      whileHeld: (effect) =>
        Effect.uninterruptible(Effect.gen(function*() {
          if ((yield* monotonicMillis) + lease / 4 >= until) return yield* new PositionLost()
          return yield* Effect.timeout(effect, lease / 4)
        }))
    }
    return held
  }

  const tryTake = Effect.fnUntraced(function*(holder: string) {
    // Measured before the statement, so that the lease ends here before it ends in the database.
    const start = yield* monotonicMillis
    const [row] = yield* statements.take(holder)
    return row === undefined ? null : heldBy(holder, row.token, start + lease)
  })

  const take = Effect.gen(function*() {
    const holder = randomUUID()
    yield* Effect.addFinalizer(() => Effect.ignore(Effect.timeout(statements.release(holder), lease / 4)))
    let held = yield* tryTake(holder)
    if (held === null) yield* Effect.logInfo("Waiting for the lease of another publisher", { name })
    while (held === null) {
      yield* Effect.sleep(lease / 20)
      held = yield* tryTake(holder)
    }
    yield* Effect.logInfo("Publishing", { name })
    return held
  })
  return { take }
})

export class Position extends Context.Service<Position, {
  /** Takes the lease as soon as no other publisher has it, and gives it back when the scope closes. */
  readonly take: Effect.Effect<HeldPosition, StoreUnavailable, Scope.Scope>
}>()("examples/outbox/Position") {
  /** The position OUTBOX_NAME. A lease that its publisher does not extend ends after OUTBOX_LEASE. */
  static readonly layer = Layer.effect(
    Position,
    Effect.andThen(makeTable, Effect.map(make, (position) => Position.of(position)))
  )
}
