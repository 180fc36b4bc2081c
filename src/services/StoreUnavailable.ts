import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { isSqlError, type SqlError } from "effect/sql/SqlError"

/**
 * The store did not answer in time. A read can be repeated. A write may or may not have happened: repeat an acceptance with
 * the same idempotency key, and before a transition read the operation again.
 */
export class StoreUnavailable extends Schema.TaggedError<StoreUnavailable>()("StoreUnavailable", {
  cause: Schema.Defect()
}) {}

/** The operation of a `SqlError` that tells that no synchronous standby has confirmed a statement. @internal */
export const confirmation = "confirm"

const transient = new Set([
  "ConnectionError",
  "AuthenticationError",
  "LockTimeoutError",
  "DeadlockError",
  "SerializationError"
])

/** The SQLSTATE of the server; empty if the failure did not come from it. @internal */
export const sqlState = (error: SqlError): string => {
  const cause = error.reason.cause
  return typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
    ? cause.code
    : ""
}

/**
 * SQLSTATE classes of temporary failures: connection exceptions, insufficient resources (too many connections, disk full),
 * operator intervention (shutdown, crash recovery, cancelled), system errors, a session that a timeout ended (25P03, 25P04),
 * and a server in recovery (25006 for a write, 55000 for `onPrimary`).
 */
const unavailable = /^(?:08|25006|25P0[34]|53|55000|57|58)/

const isUnavailable = (error: SqlError): boolean =>
  transient.has(error.reason._tag) || unavailable.test(sqlState(error))

/**
 * The failure of a rollback on a lost connection. Effect makes it a defect, and the failure of the transaction another one: those have a
 * `_tag`. Null: there is none, or the cause has another defect or an interruption.
 */
const lostRollback = (cause: Cause.Cause<unknown>): SqlError | null => {
  if (Cause.hasInterrupts(cause)) return null
  const defects = cause.reasons.filter(Cause.isDieReason).map(({ defect }) => defect)
  const isExpected = (defect: unknown) =>
    isSqlError(defect) ? isUnavailable(defect) : Predicate.hasProperty(defect, "_tag")
  return defects.every(isExpected) ? defects.find(isSqlError) ?? null : null
}

/**
 * Sorts the failures of a statement or a transaction. If the store is unavailable, it fails with `StoreUnavailable`. So does a
 * transaction that lost its connection after another failure: PostgreSQL rolls it back. Every other failure (a missing table, a rule
 * of a trigger) is a mistake of this program, and dies.
 */
export const orUnavailable = <A, E, R>(
  effect: Effect.Effect<A, E | SqlError, R>
): Effect.Effect<A, Exclude<E, SqlError> | StoreUnavailable, R> =>
  Effect.catchCause(effect, (cause): Effect.Effect<never, Exclude<E, SqlError> | StoreUnavailable> => {
    const lost = lostRollback(cause)
    if (lost !== null) return Effect.fail(new StoreUnavailable({ cause: lost }))
    const error = Cause.hasDies(cause) ? undefined : cause.reasons.find(Cause.isFailReason)?.error
    // The cast: the cause has no failure of SQL.
    if (!isSqlError(error)) return Effect.failCause(cause as Cause.Cause<Exclude<E, SqlError>>)
    return isUnavailable(error) ? Effect.fail(new StoreUnavailable({ cause: error })) : Effect.die(error)
  })

/** What happened and what to do, for failures whose own message says neither. */
const explanations: Readonly<Partial<Record<SqlError["reason"]["_tag"], string>>> = {
  StatementTimeoutError:
    "statement timeout: the database is busy, or a lock delays it; try again, and look in pg_stat_activity if it repeats",
  LockTimeoutError:
    "lock timeout: another transaction holds the row or the table; try again, and look in pg_locks if it repeats"
}

/** What is wrong with the URL of the database, which no server has seen then. Null: it is another failure. */
const wrongUrl = ({ message, name }: Error): string | null => {
  if (message === "No username configured") return "the database URL has no user, such as postgres://user@host/database"
  return name === "InvalidDatabaseUrl" ? message : null
}

const isUnreachable = ({ reason: { _tag } }: SqlError): boolean => _tag === "ConnectionError"

/** The setting with the URL of the database that refused a connection or a statement. */
const settings = new WeakMap<SqlError, string>()

/** Failures that a wrong URL can cause. */
const byUrl: ReadonlySet<SqlError["reason"]["_tag"]> = new Set([
  "ConnectionError",
  "AuthenticationError",
  "AuthorizationError"
])

/** Notes the setting with the URL, for the text of a failure that a wrong URL can cause. @internal */
export const nameSetting = (error: SqlError, setting: string): void => {
  // 3D000: there is no such database.
  if (byUrl.has(error.reason._tag) || sqlState(error) === "3D000") settings.set(error, setting)
}

/** What failed in the database, or on the way to it, in one sentence. Null for every other failure. @internal */
export const storeFailure = (error: unknown): string | null => {
  if (!(error instanceof StoreUnavailable || isSqlError(error))) return null
  const failure = isSqlError(error) ? error : error.cause
  const root = rootCause(error)
  const { message } = root
  if (!isSqlError(failure)) return message
  const text = wrongUrl(root) ?? explanations[failure.reason._tag]
    ?? (isUnreachable(failure) ? `the database is unreachable: ${message}; start it, or correct its URL` : message)
  const setting = settings.get(failure)
  return setting === undefined ? text : `${text} (${setting})`
}

const rootCause = (error: Error): Error => error.cause instanceof Error ? rootCause(error.cause) : error
