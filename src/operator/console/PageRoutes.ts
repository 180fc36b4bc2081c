/**
 * The page of the console and its files, and the page for visitors without a session.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import { respond } from "../../server/gate/FailureResponses.ts"
import { Problems } from "../../server/gate/ProblemResponses.ts"
import { pathOf } from "../../server/gate/RequestContext.ts"
import { type AnswerStatic, makeStatic } from "../../server/StaticContent.ts"
import { ConsoleAccess } from "./access/signIn.ts"
import { ConsoleAssets } from "./ConsoleAssets.ts"
import { makeFindSession } from "./ConsoleGuard.ts"
import { makeNoticePage } from "./noticePage.ts"

/** Names of files change with their content, so browsers need not ask again. */
const immutable = { "cache-control": "public, max-age=31536000, immutable" }

/**
 * Whether the visit follows a link of another site. Browsers withhold the cookie then, so that there may be a session all the same: a
 * request of an own page tells.
 */
const followsForeignLink = ({ headers }: HttpServerRequest): boolean =>
  headers["sec-fetch-site"] === "cross-site" && headers["sec-fetch-mode"] === "navigate"

export const PageRoutes = HttpRouter.use(Effect.fnUntraced(function*(router) {
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
