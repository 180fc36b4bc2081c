/**
 * Answers requests for the console's API that no endpoint answers.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import { makeFindAllow, pathsOf } from "../../server/gate/Edge.ts"
import { ConsoleApi } from "./ConsoleApi.ts"
import { eventsPath } from "./EventsRoute.ts"
import { methodNotAllowed, routeNotFound } from "./refusals.ts"

const findAllow = makeFindAllow([...pathsOf([ConsoleApi]), { path: eventsPath, methods: ["GET"] }])

export const NoEndpoint = HttpRouter.add(
  "*",
  "/console/api/*",
  (request) => Effect.succeed(findAllow(request) === undefined ? routeNotFound : methodNotAllowed)
)
