/**
 * Handlers of `ConsoleApi`.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { OperationState } from "../../domain/Operation.ts"
import type { OperationListQuery } from "../../domain/operators/OperatorView.ts"
import { LedgerFigures } from "../../services/operators/LedgerFigures.ts"
import { OperationSearch } from "../../services/operators/OperationSearch.ts"
import { ConsoleAddress } from "./access/ConsoleAddress.ts"
import { removeCookie } from "./access/cookies.ts"
import { Sessions } from "./access/Sessions.ts"
import { ConsoleApi } from "./ConsoleApi.ts"
import { CurrentSession } from "./ConsoleGuard.ts"
import { makePerformAction } from "./performAction.ts"
import { readLedger } from "./readLedger.ts"
import { unknownPage } from "./refusals.ts"

/** Operations in a page. */
const pageSize = 50

/** Hours of the flow, unless the request names others. */
const defaultHours = "3"

/** The filters of a list, as the request names them. */
interface ListQuery extends Omit<OperationListQuery, "limit" | "order" | "states"> {
  readonly order?: OperationListQuery["order"]
  readonly state?: OperationState
}

const makeList = Effect.map(OperationSearch, (search) => ({ order, state, ...filter }: ListQuery) =>
  readLedger(
    Effect.catchTag(
      search.list({
        ...filter,
        ...state === undefined ? {} : { states: [state] },
        order: order ?? (filter.queue === undefined ? "newest" : "oldest"),
        limit: pageSize
      }),
      "UnknownPage",
      () => Effect.succeed(unknownPage)
    )
  ))

const makeOverview = Effect.gen(function*() {
  const figures = yield* LedgerFigures
  return Effect.fnUntraced(function*(hours: number) {
    const [now, flow] = yield* readLedger(Effect.all([figures.now, figures.flow(hours)], { concurrency: 2 }))
    return { ...now, flow }
  })
})

const makeSignOut = Effect.gen(function*() {
  const address = yield* ConsoleAddress
  const sessions = yield* Sessions
  return Effect.gen(function*() {
    const session = yield* CurrentSession
    yield* sessions.end(session)
    yield* Effect.annotateLogs(Effect.logInfo("Operator signed out"), { operator: session.operator })
    return removeCookie(HttpServerResponse.empty({ status: 204 }), address, "session")
  })
})

/** `version` is that of the program. */
export const ConsoleHandlers = (version: string) =>
  HttpApiBuilder.group(
    ConsoleApi,
    "console",
    Effect.fn(function*(handlers) {
      const search = yield* OperationSearch
      const list = yield* makeList
      const overview = yield* makeOverview
      const performAction = yield* makePerformAction
      const signOut = yield* makeSignOut
      return handlers.handleAll({
        session: () =>
          Effect.map(CurrentSession, ({ csrfToken, expiresAt, operator }) => ({
            operator,
            csrf_token: csrfToken,
            version,
            expires_at: expiresAt
          })),
        logout: () => signOut,
        overview: ({ query }) => overview(Number(query.hours ?? defaultHours)),
        list: ({ query }) => list(query),
        find: ({ query }) => Effect.map(readLedger(search.find(query.text)), (operations) => ({ operations })),
        detail: ({ params }) => readLedger(search.detail(params.id)),
        act: ({ params, payload }) =>
          Effect.flatMap(CurrentSession, ({ operator }) => performAction(params.id, operator, payload))
      })
    })
  )
