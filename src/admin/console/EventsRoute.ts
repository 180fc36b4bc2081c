/**
 * `GET /console/api/events`: the changes of the ledger as server-sent events.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as Stream from "effect/Stream"
import { eventStream } from "../../server/EventStream.ts"
import { Sessions } from "./access/Sessions.ts"
import { ChangeBroadcast } from "./ChangeBroadcast.ts"
import { CurrentSession } from "./ConsoleGuard.ts"
import { tooManyStreams } from "./refusals.ts"

/** The stream ends with the session, so that a page without one shows nothing new. An open stream does not prolong the session. */
export const EventsRoute = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const broadcast = yield* ChangeBroadcast
  const sessions = yield* Sessions
  yield* router.add(
    "GET",
    "/console/api/events",
    Effect.gen(function*() {
      const session = yield* CurrentSession
      const changes = yield* broadcast.subscribe
      return changes === null
        ? tooManyStreams
        : eventStream(Stream.interruptWhen(changes, sessions.ended(session)), "changes")
    })
  )
}))
