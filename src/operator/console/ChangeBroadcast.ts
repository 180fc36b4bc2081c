/**
 * Tells all pages of the process what changed in the ledger. It reads the change feed once for all of them, and not at all without one.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import { type ChangeToken, ChangeTokenExpired, type LedgerChange } from "../../domain/ChangeFeed.ts"
import { OperationFeed } from "../../services/OperationFeed.ts"
import { storeFailure } from "../../services/StoreUnavailable.ts"
import { type ChangeInbox, eventOf, makeChangeInbox, unnamed } from "./ChangeInbox.ts"
import type { ConsoleChanges } from "./ConsoleApi.ts"
import { inTime } from "./readLedger.ts"

/** How often the feed is read. */
const interval = Duration.millis(500)

/** Pause after a failure. */
const pauseAfterFailure = Duration.seconds(1)

/** Most changes in one statement. */
const pageSize = 1000

/** Most pages at once. */
export const maxStreams = 32

export class ChangeBroadcast extends Context.Service<ChangeBroadcast, {
  /**
   * The changes from now on. The first event names none. It comes when later changes will not be missed, or when the feed cannot be
   * read. Null: there are too many streams. Closing the scope frees the place, and does not end the stream.
   */
  readonly subscribe: Effect.Effect<Stream.Stream<ConsoleChanges> | null, never, Scope.Scope>
}>()("financial-agents-gateway/operator/console/ChangeBroadcast") {
  static readonly layer: Layer.Layer<ChangeBroadcast, never, OperationFeed> = Layer.effect(
    ChangeBroadcast,
    Effect.suspend(() => make)
  )
}

/** The failure as text without credentials: the message of a defect may contain anything. */
const reasonOf = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  return error instanceof ChangeTokenExpired ? error.message : storeFailure(error) ?? "a defect"
}

const make = Effect.gen(function*() {
  const feed = yield* OperationFeed
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const inboxes = new Set<ChangeInbox>()
  /** Whether the changes of all inboxes are followed, or the last attempt failed. Otherwise the loop is starting. */
  let status: "starting" | "following" | "failing" = "starting"

  const send = (event: ConsoleChanges) => {
    for (const inbox of inboxes) inbox.put(event)
  }

  /** Sends the changes after the token, and returns the next one. */
  const readChanges = Effect.fnUntraced(function*(after: ChangeToken) {
    let token = after
    const changes: Array<LedgerChange> = []
    while (true) {
      const page = yield* inTime(feed.sinceInLedger(token, pageSize))
      // After a page of the largest size, the event names none anyway.
      if (changes.length < pageSize) changes.push(...page.changes)
      token = page.next
      if (!page.has_more) break
    }
    if (changes.length > 0) {
      send(eventOf(changes.map(({ operation: { id, revision, state } }) => ({ id, state, revision }))))
    }
    return token
  })

  /** Reads changes until it fails. The pages may have missed those before its start. */
  const follow = Effect.gen(function*() {
    let token = yield* readChanges(yield* inTime(feed.now))
    status = "following"
    send(unnamed)
    while (true) {
      yield* Effect.sleep(interval)
      token = yield* readChanges(token)
    }
  })

  /** Of several failures in a row, the first one is logged, and the pages read again: their reads show the failure. */
  const reportFailure = (cause: Cause.Cause<unknown>) => {
    if (status === "failing") return Effect.void
    status = "failing"
    send(unnamed)
    return Effect.annotateLogs(Effect.logWarning("The console cannot read changes; it tries again"), {
      cause: reasonOf(cause)
    })
  }

  /** Follows the changes, also after failures and after a failover, which ends the validity of the token. */
  const followAlways = Effect.forever(
    Effect.catchCause(
      follow,
      (cause) => Effect.andThen(reportFailure(cause), Effect.sleep(pauseAfterFailure))
    )
  )

  /** Runs while there are streams. */
  let loop: Fiber.Fiber<unknown> | null = null

  const enter = (inbox: ChangeInbox) => {
    inboxes.add(inbox)
    if (loop === null) {
      status = "starting"
      // Spans of an endless loop would only fill a collector.
      loop = run(Effect.withTracerEnabled(followAlways, false))
    } else if (status !== "starting") inbox.put(unnamed)
  }

  const leave = (inbox: ChangeInbox) => {
    inboxes.delete(inbox)
    if (inboxes.size > 0) return
    loop?.interruptUnsafe()
    loop = null
  }

  yield* Effect.addFinalizer(() => Effect.suspend(() => loop === null ? Effect.void : Fiber.interrupt(loop)))

  return ChangeBroadcast.of({
    subscribe: Effect.gen(function*() {
      if (inboxes.size >= maxStreams) return null
      const inbox = yield* makeChangeInbox
      yield* Effect.acquireRelease(Effect.sync(() => enter(inbox)), () => Effect.sync(() => leave(inbox)))
      return inbox.events
    })
  })
})
