/**
 * `GET /console/api/events`: the changes of the ledger as server-sent events.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpRouter from "effect/http/HttpRouter"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { eventStream } from "../../server/agents/EventStream.ts"
import { respond } from "../../server/gate/FailureResponses.ts"
import { Problems } from "../../server/gate/ProblemResponses.ts"
import { makeChangeFollower } from "../../server/waits/ChangeFollower.ts"
import { AdminShutdown } from "../AdminServer.ts"
import { Sessions } from "./access/Sessions.ts"
import type { ConsoleChanges } from "./ConsoleApi.ts"
import { CurrentSession } from "./ConsoleGuard.ts"

/** Most operations that an event names. */
const maxNamed = 100

/** The event of pages that must read again all that they show. */
const unnamed: ConsoleChanges = { operations: null }

/** The event for these changes, which names none if they are too many. */
const eventOf = (operations: ConsoleChanges["operations"]): ConsoleChanges =>
  operations === null || operations.length > maxNamed ? unnamed : { operations }

/** One event for both. Of an operation that both name, the later revision stays. */
const merge = (earlier: ConsoleChanges, later: ConsoleChanges): ConsoleChanges => {
  if (earlier.operations === null || later.operations === null) return unnamed
  return eventOf([
    ...new Map([...earlier.operations, ...later.operations].map((change) => [change.id, change])).values()
  ])
}

/** Adds to what changed since a page received its last event, as one event: a page that reads slowly fills no memory. */
const put = (inbox: Queue.Queue<ConsoleChanges>, event: ConsoleChanges) => {
  const waiting = Queue.takeUnsafe(inbox)
  Queue.offerUnsafe(inbox, waiting !== undefined && Exit.isSuccess(waiting) ? merge(waiting.value, event) : event)
}

/** How often the feed is read. */
const interval = Duration.millis(500)

/** Most pages at once. */
const maxStreams = 32

/** One read of the feed for all pages of the process, and none without a page. */
const makeBroadcast = Effect.gen(function*() {
  const inboxes = new Set<Queue.Queue<ConsoleChanges>>()

  const send = (event: ConsoleChanges) => {
    for (const inbox of inboxes) put(inbox, event)
  }

  const follower = yield* makeChangeFollower({
    interval,
    failureMessage: "The console cannot read changes; it tries again",
    onPage: ({ changes }) =>
      Effect.sync(() => {
        if (changes.length === 0) return
        send(eventOf(changes.map(({ operation: { id, revision, state } }) => ({ id, state, revision }))))
      }),
    // Of several failures in a row, the pages read again after the first one: their reads show it.
    onFailure: (isFirst) => {
      if (isFirst) send(unnamed)
    },
    onResume: () => send(unnamed)
  })

  /**
   * The changes from now on. The first event names none. It comes when later changes will not be missed, or when the feed cannot be
   * read. Null: there are too many streams. Closing the scope makes room for another one, and does not end the stream.
   */
  return Effect.gen(function*() {
    if (inboxes.size >= maxStreams) return null
    const inbox = yield* Queue.bounded<ConsoleChanges>(1)
    const hasTried = yield* Effect.acquireRelease(
      Effect.sync(() => {
        inboxes.add(inbox)
        return follower.enter()
      }),
      () =>
        Effect.sync(() => {
          inboxes.delete(inbox)
          follower.leave()
        })
    )
    return Stream.concat(Stream.fromEffect(Effect.as(hasTried.await, unnamed)), Stream.fromQueue(inbox))
  })
})

export const eventsPath = "/console/api/events"

/**
 * The stream ends with the session, so that a page without one shows nothing new, and when the process stops. An open stream does not
 * prolong the session.
 */
export const EventsRoute = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const subscribe = yield* makeBroadcast
  const sessions = yield* Sessions
  const shutdown = yield* AdminShutdown
  const problems = yield* Problems
  yield* router.add(
    "GET",
    eventsPath,
    Effect.gen(function*() {
      const session = yield* CurrentSession
      const changes = yield* subscribe
      return changes === null
        ? yield* respond(problems.fail("too_many_streams"))
        : eventStream(
          Stream.interruptWhen(changes, Effect.raceFirst(sessions.ended(session), shutdown.begun)),
          "changes"
        )
    })
  )
}))
