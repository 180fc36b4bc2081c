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
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServer } from "effect/http/HttpServer"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import { isInetAddress } from "effect/net/NetAddress"
import { makeFindAllow, pathsOf } from "../../server/gate/Edge.ts"
import { respond } from "../../server/gate/FailureResponses.ts"
import { Problems } from "../../server/gate/ProblemResponses.ts"
import { pathOf } from "../../server/gate/RequestContext.ts"
import { type AnswerStatic, makeStatic } from "../../server/StaticContent.ts"
import type { AdminRoutes } from "../AdminServer.ts"
import { ConsoleAddress, makeConsoleAddress } from "./access/ConsoleAddress.ts"
import { OidcAccess } from "./access/OidcAccess.ts"
import { OneTimeLinkAccess } from "./access/OneTimeLinkAccess.ts"
import { Sessions } from "./access/Sessions.ts"
import { ConsoleAccess, makeNoticePage } from "./access/signIn.ts"
import { ConsoleApi } from "./ConsoleApi.ts"
import { ConsoleAssets } from "./ConsoleAssets.ts"
import { ConsoleAnswersLayer, EveryRequest, makeFindSession, SessionRequired } from "./ConsoleGuard.ts"
import { ConsoleHandlers } from "./ConsoleHandlers.ts"
import type { ConsoleSettings } from "./ConsoleSettings.ts"
import { eventsPath, EventsRoute } from "./EventsRoute.ts"

const findAllow = makeFindAllow([...pathsOf([ConsoleApi]), { path: eventsPath, methods: ["GET"] }])

/** Answers requests for the API that no endpoint answers. */
const NoEndpoint = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const problems = yield* Problems
  yield* router.add("*", "/console/api/*", (request) => {
    const allow = findAllow(request)
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
