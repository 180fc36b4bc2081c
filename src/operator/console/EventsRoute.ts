/**
 * `GET /console/api/events`: the changes of the ledger as server-sent events.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as Stream from "effect/Stream"
import { eventStream } from "../../server/agents/EventStream.ts"
import { AdminShutdown } from "../AdminShutdown.ts"
import { Sessions } from "./access/Sessions.ts"
import { ChangeBroadcast } from "./ChangeBroadcast.ts"
import { CurrentSession } from "./ConsoleGuard.ts"
import { tooManyStreams } from "./refusals.ts"

export const eventsPath = "/console/api/events"

/**
 * The stream ends with the session, so that a page without one shows nothing new, and when the process stops. An open stream does not
 * prolong the session.
 */
export const EventsRoute = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const broadcast = yield* ChangeBroadcast
  const sessions = yield* Sessions
  const shutdown = yield* AdminShutdown
  yield* router.add(
    "GET",
    eventsPath,
    Effect.gen(function*() {
      const session = yield* CurrentSession
      const changes = yield* broadcast.subscribe
      return changes === null
        ? tooManyStreams
        : eventStream(
          Stream.interruptWhen(changes, Effect.raceFirst(sessions.ended(session), shutdown.begun)),
          "changes"
        )
    })
  )
}))
