/**
 * What the tools that read operations and limits do. All of it is reading: they know no service that could submit.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Operation, OperationId } from "../domain/Operation.ts"
import {
  adviceOn,
  adviceOnChanges,
  adviceOnLimits,
  adviceOnList,
  adviceOnUnknownKey,
  adviceOnWait,
  unknownKeySeconds
} from "./Advice.ts"
import { AgentReads, differs, type ReadRefused } from "./AgentReads.ts"
import { answerOf, refusalText } from "./OperationAnswer.ts"
import { defaultPageSize, defaultWaitSeconds, OperationTools, ToolRefusal } from "./OperationTools.ts"
import { longestSilence, makeReport, type Report } from "./Progress.ts"
import { quoteFailure } from "./QuotedText.ts"
import { registerTools } from "./registerTools.ts"

/** A wait of a second or more that ends earlier, without a change, shows that the gateway does not let the request wait. In seconds. */
const shortestWait = 0.5

/** Seconds after which a feed that was read to its end may have news. */
const readFeedAgainAfter = 5

const refuse = (refused: ReadRefused) => Effect.fail(new ToolRefusal({ message: refusalText(refused) }))

/** The operations of a page, and one advice for each state in it. The seconds are those of its youngest operation. */
const shownOf = Effect.fnUntraced(function*(operations: ReadonlyArray<Operation>) {
  const now = yield* DateTime.now
  const youngest = new Map<string, Operation>()
  for (const operation of operations) {
    const key = `${operation.state} ${operation.under_review}`
    const other = youngest.get(key)
    if (other === undefined || DateTime.isGreaterThan(operation.updated_at, other.updated_at)) {
      youngest.set(key, operation)
    }
  }
  return {
    advice_by_state: [...youngest.values()].map((operation) => ({
      state: operation.state,
      under_review: operation.under_review,
      advice: adviceOn(operation, now).advice
    })),
    operations: operations.map(quoteFailure)
  }
})

/** Reads until the operation is final, the time is over, or the gateway does not let the call wait any longer. */
const waitFor = Effect.fnUntraced(function*(report: Report, id: OperationId, seconds: number) {
  const reads = yield* AgentReads
  const clock = yield* Clock.Clock
  const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e9
  const start = now()
  let operation = yield* reads.get(id)
  while (!operation.terminal) {
    const waited = now() - start
    const left = seconds - waited
    if (left <= 0) break
    yield* report(waited, seconds, adviceOn(operation, yield* DateTime.now).advice)
    const read = yield* reads.next(operation, Math.ceil(Math.min(left, longestSilence)))
    // The gateway shuts down, or too many requests wait.
    const mayNotWait = now() - start - waited < shortestWait
    if (mayNotWait && !differs(operation, read)) break
    operation = read
  }
  return { ...adviceOnWait(operation, yield* DateTime.now), operation: quoteFailure(operation) }
})

/** Registers `OperationTools` with their handlers. Calls need the `AgentReads` of the request. */
export const OperationToolHandlers = Layer.effectDiscard(Effect.gen(function*() {
  const report = yield* makeReport

  yield* registerTools(OperationTools, {
    list_operations: Effect.fnUntraced(function*(query) {
      const reads = yield* AgentReads
      const page = yield* reads.list({ page_size: defaultPageSize, ...query })
      return { advice: adviceOnList(page.operations.length === 0), ...page, ...yield* shownOf(page.operations) }
    }, Effect.catch(refuse)),

    get_operation: Effect.fnUntraced(function*({ id }) {
      const reads = yield* AgentReads
      return yield* answerOf(yield* reads.get(id))
    }, Effect.catch(refuse)),

    find_operation_by_key: Effect.fnUntraced(function*({ idempotency_key }) {
      const reads = yield* AgentReads
      const { operations: [operation] } = yield* reads.list({ idempotency_key })
      return operation === undefined
        ? { advice: adviceOnUnknownKey, read_again_in_seconds: unknownKeySeconds, operation: null }
        : yield* answerOf(operation)
    }, Effect.catch(refuse)),

    wait_for_operation: ({ id, seconds = defaultWaitSeconds }) => Effect.catch(waitFor(report, id, seconds), refuse),

    changes_since: Effect.fnUntraced(function*(query) {
      const reads = yield* AgentReads
      const page = yield* reads.changes({ page_size: defaultPageSize, ...query })
      return {
        advice: adviceOnChanges(page.has_more),
        read_again_in_seconds: page.has_more ? 0 : readFeedAgainAfter,
        ...page,
        ...yield* shownOf(page.operations)
      }
    }, Effect.catch(refuse)),

    get_limits: Effect.fnUntraced(function*() {
      const reads = yield* AgentReads
      const { limits } = yield* reads.limits
      return { advice: adviceOnLimits(limits.length === 0), limits }
    }, Effect.catch(refuse))
  })
}))
