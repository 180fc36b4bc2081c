/**
 * Calls of the ledger for the console, within a time, and the refusals after their failures.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { OperationNotFound } from "../../domain/Operation.ts"
import { withinTime } from "../../http/exchangeLimits.ts"
import { storeFailure, StoreUnavailable } from "../../services/StoreUnavailable.ts"

/** How long an operator waits for the database. */
const timeout = Duration.seconds(12)

const noAnswer = new StoreUnavailable({ cause: new Error("The database did not answer in time") })

/**
 * Fails a call that takes too long: a lost connection may never answer. Detached, because a transaction cannot be interrupted while its
 * connection is silent.
 */
export const inTime = <A, E, R>(call: Effect.Effect<A, E, R>): Effect.Effect<A, E | StoreUnavailable, R> =>
  withinTime(call, { duration: timeout, orElse: () => Effect.fail(noAnswer), isDetached: true })

/** Logs the failure of the store, as text without credentials. */
export const logStoreFailure = (message: string, error: StoreUnavailable): Effect.Effect<void> =>
  Effect.annotateLogs(Effect.logWarning(message), { cause: storeFailure(error) })

const unavailable = { code: "store_unavailable", message: "The database did not answer. Try again." } as const

/** The refusals of reads, by the failure. */
interface ReadRefusals {
  readonly OperationNotFound: { readonly code: "operation_not_found"; readonly message: string }
  readonly StoreUnavailable: typeof unavailable
}

const refuseRead = <E extends OperationNotFound | StoreUnavailable>(
  error: E
): Effect.Effect<never, ReadRefusals[E["_tag"]]> => {
  const refused = error._tag === "StoreUnavailable"
    ? Effect.andThen(logStoreFailure("The console could not read the ledger", error), Effect.fail(unavailable))
    : Effect.fail({ code: "operation_not_found", message: error.message })
  // The compiler does not narrow a type parameter by its tag.
  return refused as Effect.Effect<never, ReadRefusals[E["_tag"]]>
}

/** Reads the ledger. Fails with the code and the message of a refusal. */
export const readLedger = <A, E extends OperationNotFound | StoreUnavailable>(read: Effect.Effect<A, E>) =>
  Effect.catch(inTime(read), refuseRead)
