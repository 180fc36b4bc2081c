/**
 * Calls of the ledger for the console, within a time, and the refusals after their failures.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { OperationNotFound } from "../../domain/Operation.ts"
import { storeFailure, StoreUnavailable } from "../../services/StoreUnavailable.ts"

/** How long an operator waits for the database. */
const timeout = "12 seconds"

const noAnswer = new StoreUnavailable({ cause: new Error("The database did not answer in time") })

/**
 * Runs the call in a fiber of its own, whose end no interruption waits for. A transaction cannot be interrupted while its connection is
 * silent.
 */
const detached = <A, E, R>(call: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(
    Effect.forkDetach(call, { startImmediately: true }),
    (fiber) => Effect.onInterrupt(Fiber.join(fiber), () => Effect.sync(() => fiber.interruptUnsafe()))
  )

/** Fails a call that takes too long: a lost connection may never answer. */
export const inTime = <A, E, R>(call: Effect.Effect<A, E, R>): Effect.Effect<A, E | StoreUnavailable, R> =>
  Effect.timeoutOrElse(detached(call), { duration: timeout, orElse: () => Effect.fail(noAnswer) })

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
