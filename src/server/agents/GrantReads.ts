/** The reads of an agent's tools, for the grant of the current request. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { CurrentGrant } from "../../api/Middleware.ts"
import type { ProblemCode } from "../../api/ProblemKinds.ts"
import { type Problem, refusedByLimits } from "../../api/Problems.ts"
import type { Operation, OperationId } from "../../domain/Operation.ts"
import { AgentReads, differs, ReadRefused } from "../../mcp/AgentReads.ts"
import { logFailedCall } from "../gate/ProblemResponses.ts"
import { makeOperationReads } from "../reads/OperationReads.ts"
import { topicOfOperation } from "../waits/Waiters.ts"
import { makeWaits } from "../waits/Waits.ts"

/** Remembers the problem that denied the current request access, for tools that do more than read. */
export const CurrentDenial: Context.Reference<(problem: Problem) => void> = Context.Reference<
  (problem: Problem) => void
>(
  "financial-agents-gateway/server/agents/GrantReads/CurrentDenial",
  { defaultValue: () => () => undefined }
)

/** A defect of the gateway or of the store. Only the log has its cause. */
const defective = new ReadRefused({ code: "internal_error", detail: "The gateway could not read the operations." })

/**
 * Makes the reads of the current request, with the problem that denied it access (401 or 403), if one did. They use its grant, its slot and
 * its id, also in other fibers.
 */
export const makeGrantReads = Effect.gen(function*() {
  const operations = yield* makeOperationReads
  const waits = yield* makeWaits

  const checked = <A extends { readonly operations: ReadonlyArray<Operation> }, E>(
    read: Effect.Effect<A, E>
  ): Effect.Effect<A, E | Problem> =>
    Effect.tap(read, (page) => Effect.forEach(page.operations, operations.check, { discard: true }))

  return Effect.contextWith((context: Context.Context<CurrentGrant>) => {
    const grant = Context.get(context, CurrentGrant)
    let denial: Problem | null = null

    /** Remembers a problem that denies access. Limits refuse one payment, and not the access: the model reads what the person must know. */
    const note = (problem: Problem) => {
      const isDenied = problem.status === 401 || problem.status === 403
      if (isDenied && !(refusedByLimits as ReadonlyArray<ProblemCode>).includes(problem.code)) denial = problem
    }

    const refuse = (problem: Problem) => {
      note(problem)
      return new ReadRefused({ code: problem.code, detail: problem.detail })
    }

    /** A merge with the context of the tool would copy both. */
    const ofRequestAlone: (current: Context.Context<never>) => Context.Context<CurrentGrant> = () => context

    const ofRequest = <A>(read: Effect.Effect<A, Problem>): Effect.Effect<A, ReadRefused> =>
      Effect.updateContext(read, ofRequestAlone).pipe(
        Effect.tapError(logFailedCall),
        Effect.mapError(refuse),
        Effect.catchDefect((defect) =>
          Effect.andThen(Effect.logError("Request failed with a defect", defect), Effect.fail(defective))
        )
      )

    const get = (id: OperationId) => Effect.flatMap(operations.find(grant, id), operations.check)

    const next = (known: Operation, seconds: number) => {
      const isNews = (operation: Operation) => differs(known, operation)
      return Effect.map(
        waits.until(
          { grant, seconds, topic: topicOfOperation(known.id), concerns: isNews },
          Effect.suspend(() => get(known.id)),
          isNews
        ),
        ({ answer }) => answer
      )
    }

    const reads = AgentReads.of({
      list: (query) => ofRequest(checked(operations.list(grant, query))),
      get: (id) => ofRequest(get(id)),
      next: (known, seconds) => ofRequest(next(known, seconds)),
      changes: (query) => ofRequest(checked(operations.changes(grant, query))),
      limits: ofRequest(operations.limits(grant))
    })
    return Effect.succeed({ reads, note, denial: () => denial })
  })
})

/** The reads of a request, and how problems that deny it access are noted and found. */
export type RequestReads = Effect.Success<Effect.Success<typeof makeGrantReads>>
