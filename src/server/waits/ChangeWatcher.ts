/**
 * Watches the ledger for the waiting requests of a process. Its statements are the same for one waiter and for thousands, and
 * without a waiter it runs none.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import { type ChangeToken, ChangeTokenExpired } from "../../domain/ChangeFeed.ts"
import { FeedMetrics } from "../../metrics/FeedMetrics.ts"
import { OperationFeed } from "../../services/OperationFeed.ts"
import { OperationStore } from "../../services/OperationStore.ts"
import { storeFailure, StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { makeLongTransactions } from "./LongTransactions.ts"
import { type Waiter, Waiters } from "./Waiters.ts"

/** How often the watcher reads the changes. A waiter learns of a change within this time and the time of a statement. */
const changesInterval = Duration.millis(50)

/** How often the watcher asks which grants are refused, so that a revocation ends a wait within a second. */
const grantsInterval = Duration.millis(500)

/** Most changes in one statement. */
const pageSize = 1000

/** How long the watcher waits for a statement: a lost connection may never answer. */
const statementTimeout = Duration.seconds(2)

/** How long the watcher pauses after a failure. */
const pauseAfterFailure = Duration.seconds(1)

const noAnswer = new StoreUnavailable({ cause: new Error("The store did not answer in time") })

const inTime = <A, E, R>(statement: Effect.Effect<A, E, R>): Effect.Effect<A, E | StoreUnavailable, R> =>
  Effect.timeoutOrElse(statement, { duration: statementTimeout, orElse: () => Effect.fail(noAnswer) })

/** Wakes waiting requests when there may be something new for them. */
export class ChangeWatcher extends Context.Service<ChangeWatcher, {
  /**
   * Runs the effect, and calls `wake` meanwhile: after changes of the topic, and when the grant is refused. It calls `wake` for
   * every change that commits after the effect has started. So an effect that reads first, and then waits, misses none.
   */
  readonly during: <A, E, R>(waiter: Waiter, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Whether a request waits, so that the watcher runs. */
  readonly isWatching: () => boolean
  /** The number of waiters. */
  readonly count: () => number
}>()("financial-agents-gateway/server/waits/ChangeWatcher") {
  static readonly layer: Layer.Layer<ChangeWatcher, never, OperationFeed | OperationStore> = Layer.effect(
    ChangeWatcher,
    Effect.suspend(() => make)
  )
}

/** The failure as text without credentials: the message of a defect may contain anything. */
const reasonOf = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  return error instanceof ChangeTokenExpired ? error.message : storeFailure(error) ?? "a defect"
}

/** Logs the first of several failures in a row. */
const makeReport = (message: string) => {
  let isFailing = false
  return {
    failed: (cause: Cause.Cause<unknown>) => {
      if (isFailing) return Effect.void
      isFailing = true
      return Effect.annotateLogs(Effect.logWarning(message), { cause: reasonOf(cause) })
    },
    succeeded: () => {
      isFailing = false
    }
  }
}

const make = Effect.gen(function*() {
  const feed = yield* OperationFeed
  const store = yield* OperationStore
  const waiters = new Waiters()
  const count = () => waiters.size
  const metrics = yield* FeedMetrics
  metrics?.add(count)
  yield* Effect.addFinalizer(() => Effect.sync(() => metrics?.remove(count)))
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const changesReport = makeReport("Changes cannot be read for waiting requests; the watcher tries again")
  const grantsReport = makeReport("Grants of waiting requests cannot be checked; the watcher tries again")

  const reportUnfinished = makeLongTransactions()

  /** Wakes the waiters for the changes after the token, and returns the next one. */
  const readChanges = Effect.fnUntraced(function*(after: ChangeToken) {
    let token = after
    while (true) {
      const { changes, has_more, next, unfinished } = yield* inTime(feed.sinceInLedger(token, pageSize))
      if (metrics !== null) {
        metrics.ok.value++
        metrics.changes.value += changes.length
      }
      waiters.wakeFor(changes)
      yield* reportUnfinished(unfinished)
      if (!has_more) return next
      token = next
    }
  })

  /** Reads changes until it fails, from the ones that are not visible yet. */
  const followChanges = Effect.fnUntraced(function*(onStart: () => void) {
    let token = yield* inTime(feed.now)
    onStart()
    while (true) {
      yield* Effect.sleep(changesInterval)
      token = yield* readChanges(token)
      changesReport.succeeded()
    }
  })

  /**
   * Follows the changes, also after failures and after a failover, which ends the validity of the token. Opens the latch once
   * it has tried to start.
   */
  const watchChanges = (hasTried: Latch.Latch): Effect.Effect<never> => {
    const start = () => {
      // Waiters from before a failure may have missed changes.
      if (hasTried.isOpen()) waiters.wakeAll()
      hasTried.openUnsafe()
    }
    return Effect.forever(Effect.catchCause(followChanges(start), (cause) => {
      hasTried.openUnsafe()
      if (metrics !== null) metrics.failed.value++
      return Effect.andThen(changesReport.failed(cause), Effect.sleep(pauseAfterFailure))
    }))
  }

  const checkGrants = Effect.gen(function*() {
    yield* Effect.sleep(grantsInterval)
    waiters.wakeGrants(yield* inTime(store.refused(waiters.grants())))
    grantsReport.succeeded()
  })

  const watchGrants: Effect.Effect<never> = Effect.forever(Effect.catchCause(
    checkGrants,
    (cause) => Effect.andThen(grantsReport.failed(cause), Effect.sleep(pauseAfterFailure))
  ))

  /** Runs while there are waiters. */
  let watch: { readonly hasTried: Latch.Latch; readonly fiber: Fiber.Fiber<unknown> } | null = null

  const startWatch = () => {
    const hasTried = Latch.makeUnsafe(false)
    // Spans of endless loops would only fill a collector.
    const both = Effect.all([watchChanges(hasTried), watchGrants], { concurrency: "unbounded", discard: true })
    return { hasTried, fiber: run(Effect.withTracerEnabled(both, false)) }
  }

  const enter = (waiter: Waiter) => {
    waiters.add(waiter)
    watch ??= startWatch()
    return watch.hasTried
  }

  const leave = (waiter: Waiter) => {
    waiters.remove(waiter)
    if (waiters.size > 0) return
    watch?.fiber.interruptUnsafe()
    watch = null
  }

  yield* Effect.addFinalizer(() => Effect.suspend(() => watch === null ? Effect.void : Fiber.interrupt(watch.fiber)))

  return ChangeWatcher.of({
    during: (waiter, effect) =>
      Effect.acquireUseRelease(
        Effect.sync(() => enter(waiter)),
        (hasTried) => Effect.andThen(hasTried.await, effect),
        () => Effect.sync(() => leave(waiter))
      ),
    isWatching: () => watch !== null,
    count
  })
})
