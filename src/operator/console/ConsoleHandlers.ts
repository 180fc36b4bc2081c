/** Handlers of `ConsoleApi`. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { ProblemOf } from "../../api/Problems.ts"
import * as CompiledGroup from "../../dispatch/CompiledGroup.ts"
import type { DecisionRefused } from "../../domain/Approval.ts"
import type { GrantId } from "../../domain/Grant.ts"
import type { OperationId, OperationState } from "../../domain/Operation.ts"
import { overviewColumns } from "../../domain/operators/FiguresForm.ts"
import { findProblems } from "../../domain/operators/findProblems.ts"
import type {
  ActingOperator,
  ActionRefusal,
  OperationListQuery,
  OperatorPage,
  OperatorSummary
} from "../../domain/operators/OperatorView.ts"
import { isReadable, type ShownTerms } from "../../domain/Terms.ts"
import { visible } from "../../domain/VisibleText.ts"
import { withinTime } from "../../http/exchangeLimits.ts"
import { Problems } from "../../server/gate/ProblemResponses.ts"
import { refuseForNow } from "../../server/gate/Refusals.ts"
import { Approvals } from "../../services/Approvals.ts"
import { Grants } from "../../services/Grants.ts"
import { LedgerFigures } from "../../services/operators/LedgerFigures.ts"
import { makeListRecorded, OperationSearch } from "../../services/operators/OperationSearch.ts"
import { OperatorActions } from "../../services/operators/OperatorActions.ts"
import { storeFailure, StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { ConsoleAddress, removeCookie } from "./access/ConsoleAddress.ts"
import { Sessions } from "./access/Sessions.ts"
import { ConsoleApi, type DecisionRequest } from "./ConsoleApi.ts"
import { CurrentSession } from "./ConsoleGuard.ts"

/** How long an operator waits for the database. */
const timeout = Duration.seconds(12)

const noAnswer = new StoreUnavailable({ cause: new Error("The database did not answer in time") })

/**
 * Fails a call that takes too long: a lost connection may never answer. Detached, because a transaction cannot be interrupted while its
 * connection is silent.
 */
const inTime = <A, E, R>(call: Effect.Effect<A, E, R>): Effect.Effect<A, E | StoreUnavailable, R> =>
  withinTime(call, { duration: timeout, orElse: () => Effect.fail(noAnswer), isDetached: true })

const refusalCodes = {
  OperationNotFound: "operation_not_found",
  AlreadySettled: "already_settled",
  IllegalTransition: "illegal_transition",
  StillHeld: "still_held",
  StaleOperation: "moved_on",
  DecisionRefused: "illegal_transition"
} as const

/** The problems of the ledger. The log has why it did not answer, as text without credentials. */
const makeRefusals = (problems: Problems["Service"]) => ({
  readLedger: <A, E>(read: Effect.Effect<A, E>) =>
    Effect.catch(
      inTime(read),
      (error): Effect.Effect<never, Exclude<E, StoreUnavailable> | ProblemOf<"service_unavailable">> =>
        error instanceof StoreUnavailable
          ? refuseForNow(problems, error, { detail: "The database did not answer. Try again." })
          // The compiler does not narrow a type parameter.
          : Effect.fail(error as Exclude<E, StoreUnavailable>)
    ),
  /** The refusal of an action that the ledger refused, with its reason, or did not answer. */
  refuseAction: (
    error: ActionRefusal | DecisionRefused | StoreUnavailable
  ): Effect.Effect<never, ProblemOf<"unknown_result" | (typeof refusalCodes)[keyof typeof refusalCodes]>> =>
    error._tag === "StoreUnavailable"
      ? problems.fail("unknown_result", {
        detail: "It is unknown whether it happened: read the operation again.",
        cause: storeFailure(error) ?? "the store did not answer"
      })
      : problems.fail(refusalCodes[error._tag], { detail: error.message }),
  refusePage: problems.fail("invalid_page_token", {
    detail: "The page belongs to another list. Begin the list anew.",
    fields: [{ path: "query.after", message: "Expected a page of this list" }]
  })
})

/** The payee is text of a client. In a page, its hidden characters could reorder what an approver reads. */
const visibleTerms = ({ payee, ...terms }: ShownTerms): ShownTerms => ({ ...terms, payee: visible(payee) })

const visibleSummary = <Summary extends OperatorSummary>(summary: Summary): Summary => ({
  ...summary,
  terms: summary.terms && visibleTerms(summary.terms)
})

const visiblePage = ({ next, operations }: OperatorPage): OperatorPage => ({
  operations: operations.map(visibleSummary),
  next
})

/** Operations in a page. */
const pageSize = 50

/** Hours of the flow, unless the request names others. */
const defaultHours = "3"

/** The filters of a list, as the request names them. */
interface ListQuery extends Omit<OperationListQuery, "limit" | "order" | "states"> {
  readonly order?: OperationListQuery["order"]
  readonly state?: OperationState | ReadonlyArray<OperationState>
}

/** Work of people begins with what waits longest. A failed operation waits for nothing. */
const isNewestFirst = ({ queue }: ListQuery): boolean => queue === undefined || queue === "failed"

/** `version` is that of the program. */
export const ConsoleHandlers = (version: string) =>
  CompiledGroup.group(
    ConsoleApi,
    "console",
    Effect.fn(function*(handlers) {
      const address = yield* ConsoleAddress
      const sessions = yield* Sessions
      const search = yield* OperationSearch
      const figures = yield* LedgerFigures
      const actions = yield* OperatorActions
      const approvals = yield* Approvals
      const grants = yield* Grants
      const listRecorded = yield* makeListRecorded
      const problems = yield* Problems
      const { readLedger, refuseAction, refusePage } = makeRefusals(problems)
      const detail = (id: OperationId) =>
        Effect.catchTag(
          readLedger(Effect.map(search.detail(id), visibleSummary)),
          "OperationNotFound",
          ({ message }) => problems.fail("operation_not_found", { detail: message })
        )
      const limits = (id: GrantId) =>
        Effect.catchTag(
          readLedger(Effect.map(grants.limits(id), (limits) => ({ limits }))),
          "GrantNotFound",
          ({ message }) => problems.fail("grant_not_found", { detail: message })
        )
      const signOut = Effect.gen(function*() {
        const session = yield* CurrentSession
        yield* sessions.end(session)
        yield* Effect.annotateLogs(Effect.logInfo("Operator signed out"), { operator: session.operator })
        return removeCookie(HttpServerResponse.empty({ status: 204 }), address, "session")
      })
      const list = ({ order, state, ...filter }: ListQuery) =>
        Effect.catchTag(
          readLedger(Effect.map(
            search.list({
              ...filter,
              ...state === undefined ? {} : { states: typeof state === "string" ? [state] : state },
              order: order ?? (isNewestFirst(filter) ? "newest" : "oldest"),
              limit: pageSize
            }),
            visiblePage
          )),
          "UnknownPage",
          () => refusePage
        )
      /** The operator acts on the operation as they saw it, and gets the operation after it. */
      const act = Effect.fnUntraced(
        function*<Reason extends string | null>(
          id: OperationId,
          reason: Reason,
          perform: (
            operator: ActingOperator & { readonly reason: Reason }
          ) => Effect.Effect<unknown, ActionRefusal | DecisionRefused | StoreUnavailable>
        ) {
          const { operator } = yield* CurrentSession
          yield* Effect.catch(inTime(perform({ name: operator, via: "console", reason })), refuseAction)
          return yield* Effect.catch(detail(id), () => problems.fail("done_but_unread"))
        }
      )
      const findPayee = Effect.fnUntraced(function*(payee: string) {
        const { operator } = yield* CurrentSession
        const query = { payee, order: "newest", limit: pageSize } as const
        return yield* Effect.catchTag(
          readLedger(
            Effect.map(listRecorded(query, { name: operator, via: "console", reason: null }), visiblePage)
          ),
          "UnknownPage",
          () => refusePage
        )
      })
      const showTerms = Effect.fnUntraced(function*(ids: ReadonlyArray<OperationId>) {
        const { operator } = yield* CurrentSession
        const shown = yield* readLedger(actions.showTerms(ids, { name: operator, via: "console", reason: null }))
        const readable = [...shown].flatMap(([id, terms]) => isReadable(terms) ? [id] : [])
        const found = yield* readLedger(Effect.forEach(readable, approvals.find))
        const digests = found.flatMap((approval) =>
          approval?.state === "pending" ? [[approval.operation_id, approval.request_digest] as const] : []
        )
        const terms = [...shown].map(([id, terms]) => [id, visibleTerms(terms)] as const)
        return { terms: Object.fromEntries(terms), digests: Object.fromEntries(digests) }
      })
      /** To deny, no operator has to see the terms. */
      const digestOf = (id: OperationId, request: DecisionRequest) =>
        request.decision === "approved"
          ? Effect.succeed(request.request_digest)
          : Effect.map(approvals.find(id), (approval) => approval?.request_digest ?? "")
      return handlers.handleAll({
        session: () =>
          Effect.map(CurrentSession, ({ csrfToken, expiresAt, operator }) => ({
            operator,
            csrf_token: csrfToken,
            version,
            expires_at: expiresAt
          })),
        logout: () => signOut,
        overview: ({ query }) =>
          Effect.map(
            readLedger(
              Effect.all([figures.nowByCondition, figures.flow(Number(query.hours ?? defaultHours))], {
                concurrency: 2
              })
            ),
            ([now, flow]) => ({ ...now, problems: findProblems(now), columns: overviewColumns(now), flow })
          ),
        list: ({ query }) => list(query),
        find: ({ query }) =>
          Effect.map(readLedger(search.find(query.text)), (found) => ({
            operations: found.map(visibleSummary)
          })),
        detail: ({ params }) => detail(params.id),
        limits: ({ params }) => limits(params.id),
        act: ({ params: { id }, payload: { action, reason, revision } }) =>
          act(id, reason, (operator) => actions.perform(action, id, operator, revision)),
        decide: ({ params: { id }, payload }) =>
          act(id, payload.reason, ({ name, reason, via }) =>
            Effect.flatMap(digestOf(id, payload), (request_digest) =>
              approvals.decide({
                operation_id: id,
                request_digest,
                decision: payload.decision,
                decider: { as: "operator", name, via },
                reason
              }))),
        advance: ({ params: { id }, payload: { evidence, outcome, reason, revision } }) =>
          act(id, reason, (operator) =>
            actions.advance({ to: outcome, evidence }, id, operator, revision)),
        payee: ({ payload }) =>
          findPayee(payload.payee),
        terms: ({ payload }) =>
          showTerms(payload.operations)
      })
    })
  )
