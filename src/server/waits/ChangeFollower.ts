/**
 * Follows the changes of the ledger for all members of a process, which are waiting requests or pages of the console. Its statements are
 * the same for one member and for thousands, and without a member it runs none.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import { type ChangeToken, ChangeTokenExpired, type LedgerChanges } from "../../domain/ChangeFeed.ts"
import { OperationFeed } from "../../services/OperationFeed.ts"
import { storeFailure, StoreUnavailable } from "../../services/StoreUnavailable.ts"

/** Most changes in one statement. */
const pageSize = 1000

/** How long a loop waits for a statement: a lost connection may never answer. */
const statementTimeout = Duration.seconds(2)

/** How long a loop pauses after a failure. */
const pauseAfterFailure = Duration.seconds(1)

const noAnswer = new StoreUnavailable({ cause: new Error("The store did not answer in time") })

/** Fails a statement that takes too long. */
export const inTime = <A, E, R>(statement: Effect.Effect<A, E, R>): Effect.Effect<A, E | StoreUnavailable, R> =>
  Effect.timeoutOrElse(statement, { duration: statementTimeout, orElse: () => Effect.fail(noAnswer) })

/** The failure as text without credentials: the message of a defect may contain anything. */
const reasonOf = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  return error instanceof ChangeTokenExpired ? error.message : storeFailure(error) ?? "a defect"
}

/**
 * Runs the effect again and again, after a failure with a pause. Logs `message` at the first of several failures in a row. The effect
 * calls `onSuccess` when it works.
 */
export const persist = <E>(
  message: string,
  effect: (onSuccess: () => void) => Effect.Effect<void, E>,
  onFailure: (isFirst: boolean) => void = () => {}
): Effect.Effect<never> => {
  let isFailing = false
  const succeeded = () => {
    isFailing = false
  }
  const failed = (cause: Cause.Cause<E>) => {
    const isFirst = !isFailing
    isFailing = true
    onFailure(isFirst)
    const log = Effect.annotateLogs(Effect.logWarning(message), { cause: reasonOf(cause) })
    return Effect.andThen(isFirst ? log : Effect.void, Effect.sleep(pauseAfterFailure))
  }
  return Effect.forever(Effect.catchCause(Effect.suspend(() => effect(succeeded)), failed))
}

/** What a follower of changes does for its members. */
interface ChangeListener {
  /** How often the changes are read. */
  readonly interval: Duration.Duration
  /** Logged when they cannot be read. */
  readonly failureMessage: string
  readonly onPage: (page: LedgerChanges) => Effect.Effect<void>
  readonly onFailure: (isFirst: boolean) => void
  /** Changes are read again after a failure. Some may have been missed. */
  readonly onResume: () => void
  /** Runs beside the reads, as long as they do. */
  readonly beside?: Effect.Effect<never>
}

/**
 * Makes a follower, whose reads begin with its first member and end with the last. A member that enters waits for `hasTried` before
 * it reads the ledger. The listener then gets every change that commits after that read. If the changes cannot be read, `hasTried` opens
 * as well, because the member's own read shows the failure.
 */
export const makeChangeFollower = Effect.fnUntraced(function*({ beside, ...listener }: ChangeListener) {
  const feed = yield* OperationFeed
  const run = Effect.runForkWith(yield* Effect.context<never>())

  /** Passes on the changes after the token, and returns the next one. */
  const readPages = Effect.fnUntraced(function*(after: ChangeToken) {
    let token = after
    while (true) {
      const page = yield* inTime(feed.sinceInLedger(token, pageSize))
      yield* listener.onPage(page)
      if (!page.has_more) return page.next
      token = page.next
    }
  })

  /** Reads changes until it fails, from the ones that are not visible yet. */
  const followUntilFailure = Effect.fnUntraced(function*(hasTried: Latch.Latch, onSuccess: () => void) {
    let token = yield* inTime(feed.now)
    if (hasTried.isOpen()) listener.onResume()
    hasTried.openUnsafe()
    while (true) {
      yield* Effect.sleep(listener.interval)
      token = yield* readPages(token)
      onSuccess()
    }
  })

  /** Also after a failover, which ends the validity of the token. */
  const follow = (hasTried: Latch.Latch) =>
    persist(
      listener.failureMessage,
      (onSuccess) => followUntilFailure(hasTried, onSuccess),
      (isFirst) => {
        hasTried.openUnsafe()
        listener.onFailure(isFirst)
      }
    )

  let members = 0
  let loop: { readonly hasTried: Latch.Latch; readonly fiber: Fiber.Fiber<unknown> } | null = null

  const start = () => {
    const hasTried = Latch.makeUnsafe(false)
    const loops = beside === undefined ? [follow(hasTried)] : [follow(hasTried), beside]
    // Spans of endless loops would only fill a collector.
    const fiber = run(Effect.withTracerEnabled(Effect.all(loops, { concurrency: "unbounded", discard: true }), false))
    return { hasTried, fiber }
  }

  yield* Effect.addFinalizer(() => Effect.suspend(() => loop === null ? Effect.void : Fiber.interrupt(loop.fiber)))

  return {
    /** Adds a member, and returns `hasTried`. */
    enter: (): Latch.Latch => {
      members++
      loop ??= start()
      return loop.hasTried
    },
    leave: (): void => {
      members--
      if (members > 0) return
      loop?.fiber.interruptUnsafe()
      loop = null
    },
    isRunning: () => loop !== null
  }
})
