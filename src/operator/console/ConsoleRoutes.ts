/**
 * The console of operators, as routes of the admin listener. A request passes these parts from the outside in:
 *
 *     EveryRequest          headers of every response, failures as problems
 *       PageRoutes          the page, its files, and the page for visitors without a session
 *       access routes       the one-time link, or the issuer: they begin sessions
 *       SessionRequired     the own page as its source, the session, the anti-forgery token
 *         ConsoleAnswers    failures of the endpoints as problems
 *         ConsoleHandlers   reads and actions
 *         EventsRoute       changes of the ledger, as server-sent events
 *         NoEndpoint        refuses all other requests
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServer } from "effect/http/HttpServer"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import { isInetAddress } from "effect/net/NetAddress"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { eventStream } from "../../server/agents/EventStream.ts"
import { makeFindPath, pathsOf } from "../../server/gate/Edge.ts"
import { respond } from "../../server/gate/FailureResponses.ts"
import { Problems } from "../../server/gate/ProblemResponses.ts"
import { pathOf } from "../../server/gate/RequestContext.ts"
import { type AnswerStatic, makeStatic } from "../../server/StaticContent.ts"
import { makeChangeFollower } from "../../server/waits/ChangeFollower.ts"
import { type AdminRoutes, AdminShutdown } from "../AdminServer.ts"
import { ConsoleAddress, makeConsoleAddress } from "./access/ConsoleAddress.ts"
import { OidcAccess } from "./access/OidcAccess.ts"
import { OneTimeLinkAccess } from "./access/OneTimeLinkAccess.ts"
import { Sessions } from "./access/Sessions.ts"
import { ConsoleAccess, makeNoticePage } from "./access/signIn.ts"
import { ConsoleApi, type ConsoleChanges } from "./ConsoleApi.ts"
import { ConsoleAssets } from "./ConsoleAssets.ts"
import { ConsoleAnswersLayer, CurrentSession, EveryRequest, makeFindSession, SessionRequired } from "./ConsoleGuard.ts"
import { ConsoleHandlers } from "./ConsoleHandlers.ts"
import type { ConsoleSettings } from "./ConsoleSettings.ts"

const eventsPath = "/console/api/events"

const findPath = makeFindPath([...pathsOf([ConsoleApi]), { path: eventsPath, methods: ["GET"] }])

/** Answers requests for the API that no endpoint answers. */
const NoEndpoint = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const problems = yield* Problems
  yield* router.add("*", "/console/api/*", (request) => {
    const allow = findPath(request.url)?.allow
    return allow === undefined
      ? respond(problems.fail("route_not_found"))
      : respond(problems.fail("method_not_allowed"), { allow })
  })
}))

const Behind = SessionRequired.combine(EveryRequest)

/** The address for browsers. The listener knows its port. */
const Address = ({ url }: ConsoleSettings) =>
  Layer.effect(
    ConsoleAddress,
    Effect.map(HttpServer, ({ address }) => makeConsoleAddress(url, isInetAddress(address) ? address.port : 0))
  )

/** The routes. The services of the ledger and the files of the page come from outside. */
const routesOf = (settings: ConsoleSettings) => {
  const Access = settings.oidc === null ? OneTimeLinkAccess(settings.operator) : OidcAccess(settings.oidc)
  const Api = Layer.mergeAll(
    HttpApiBuilder.layer(ConsoleApi).pipe(
      Layer.provide(ConsoleHandlers(settings.version)),
      Layer.provide(ConsoleAnswersLayer)
    ),
    EventsRoute,
    NoEndpoint
  ).pipe(Layer.provide(Behind.layer))
  const Pages = PageRoutes.pipe(Layer.provide(Access), Layer.provide(EveryRequest.layer))
  return Layer.merge(Api, Pages).pipe(
    Layer.provide(Sessions.layer),
    Layer.provide(Address(settings))
  )
}

/** The console, for `AdminServer.layer`. */
export const consoleRoutes = (
  settings: ConsoleSettings
): AdminRoutes<never, Layer.Services<ReturnType<typeof routesOf>>> => ({
  routes: routesOf(settings),
  // Its routes answer all requests below this path.
  paths: [{ path: "/console", methods: ["GET"] }],
  pages: [{ path: "/console", purpose: "The console of operators" }],
  hosts: settings.url === null ? [] : [new URL(settings.url).host]
})

/** Names of files change with their content, so browsers need not ask again. */
const immutable = { "cache-control": "public, max-age=31536000, immutable" }

/**
 * Whether the visit follows a link of another site. Browsers withhold the cookie then, so that there may be a session all the same: a
 * request of an own page tells.
 */
const followsForeignLink = ({ headers }: HttpServerRequest): boolean =>
  headers["sec-fetch-site"] === "cross-site" && headers["sec-fetch-mode"] === "navigate"

const PageRoutes = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { notice } = yield* ConsoleAccess
  const assets = yield* ConsoleAssets
  const problems = yield* Problems
  const noticePage = yield* makeNoticePage
  const findSession = yield* makeFindSession
  const files = new Map<string, Effect.Effect<AnswerStatic>>()
  for (const [name, asset] of assets) {
    files.set(name, yield* makeStatic(Effect.succeed(name === "index.html" ? asset : { ...asset, headers: immutable })))
  }
  const index = files.get("index.html")

  const answerPage = Effect.fnUntraced(function*(request: HttpServerRequest) {
    const session = yield* findSession(request)
    if (session !== null && index !== undefined) return (yield* index)(request.headers)
    const path = pathOf(request.url)
    return yield* noticePage(
      followsForeignLink(request)
        ? { title: "Opening the console", text: [], link: { text: "Continue", path }, next: path }
        : yield* notice(path)
    )
  })

  yield* router.add("*", "/console/*", (request) => {
    if (request.method !== "GET" && request.method !== "HEAD") {
      return respond(problems.fail("method_not_allowed"), { allow: "GET, HEAD" })
    }
    const name = pathOf(request.url).slice("/console/".length)
    if (!name.startsWith("assets/")) return answerPage(request)
    const file = files.get(name)
    return file === undefined
      ? respond(problems.fail("route_not_found"))
      : Effect.map(file, (answer) => answer(request.headers))
  })
}))

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

/**
 * The stream ends with the session, so that a page without one shows nothing new, and when the process stops. An open stream does not
 * prolong the session.
 */
const EventsRoute = HttpRouter.use(Effect.fnUntraced(function*(router) {
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
