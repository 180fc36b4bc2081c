/**
 * The tools that read operations and limits: names, parameters, answers, and what they do. None changes anything: they know no service that
 * could submit.
 *
 * The room `mcp`: the tools of language-model agents, without a transport. Read this file first.
 *
 * Their schemas are those of the HTTP API (`api/OperationsApi`), with the advice on what was read.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { parseIdempotencyKey } from "../api/MutationEndpoint.ts"
import {
  ChangesQuery,
  GrantLimits,
  ListQuery,
  maxPageSize,
  OperationChanges,
  OperationList
} from "../api/OperationsApi.ts"
import { IdempotencyKey } from "../domain/Idempotency.ts"
import { Operation, OperationId, OperationState } from "../domain/Operation.ts"
import {
  adviceOn,
  adviceOnChanges,
  adviceOnLimits,
  adviceOnList,
  adviceOnUnknownKey,
  adviceOnWait,
  unknownKeySeconds
} from "./Advice.ts"
import { AgentReads, differs } from "./AgentReads.ts"
import { AdviceText, answerOf, OperationAnswer, ReadAgain } from "./OperationAnswer.ts"
import { longestSilence, type Report } from "./Progress.ts"
import { quoteFailure } from "./QuotedText.ts"
import { readTool, registerTools } from "./registerTools.ts"

const withoutQuotes = (key: IdempotencyKey): IdempotencyKey =>
  key.startsWith("\"") ? parseIdempotencyKey(key) ?? key : key

/**
 * A key with or without the quotes that it has in the header `Idempotency-Key`. Both are the same key, as they are there: agents copy
 * keys from such headers, and another key would be another payment.
 */
export const KeyArgument = IdempotencyKey.pipe(
  Schema.decodeTo(
    Schema.toType(IdempotencyKey),
    SchemaTransformation.transform({ decode: withoutQuotes, encode: (key) => key })
  )
)

/** Operations on a page unless the agent asks for more: each takes about 400 characters of a model's context. */
const defaultPageSize = 20

/** The longest wait of a tool call, in seconds. Many hosts end a call after a minute. */
const maxWaitSeconds = 55

const defaultWaitSeconds = 45

const PageSize = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: maxPageSize })).annotate({
  description: `Operations on a page, 1 to ${maxPageSize}; ${defaultPageSize} by default.`
})

/** Filters of both pages. The descriptions of the HTTP API tell how to write them in a query. */
const filters = {
  state: ListQuery.fields.state.annotate({ description: "Only operations that are in one of these states now." }),
  type: ListQuery.fields.type,
  page_size: Schema.optionalKey(PageSize)
}

const listParameters = Schema.Struct({
  ...ListQuery.fields,
  ...filters,
  idempotency_key: Schema.optionalKey(
    KeyArgument.pipe(
      Schema.annotateEncoded({ description: "Only the operation of the request with this key: one at most." })
    )
  ),
  page_token: ListQuery.fields.page_token.annotate({
    description: "next_page_token of the page before. The other arguments must be those of that page, except page_size."
  })
})

const changesParameters = Schema.Struct({
  ...ChangesQuery.fields,
  ...filters,
  after: ChangesQuery.fields.after.annotate({
    description:
      "next_change_token of the page before, with the same filters. Without it the feed starts at the oldest operation."
  })
})

/** The advice on the operations of a page that have this state. */
const StateAdvice = Schema.Struct({
  state: OperationState,
  under_review: Schema.Boolean,
  advice: AdviceText
})

const pageAdvice = {
  advice: AdviceText,
  advice_by_state: Schema.Array(StateAdvice).annotate({ description: "The advice on each state in this page." })
}

/** A wait of a second or more that ends earlier, without a change, shows that the gateway does not let the request wait. In seconds. */
const shortestWait = 0.5

/** Seconds after which a feed that was read to its end may have news. */
const readFeedAgainAfter = 5

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

/** The tools of every gateway, by their names. */
export const operationTools = {
  list_operations: readTool({
    title: "List operations",
    description: "Lists the operations that this agent requested for its user, newest first. It only reads.",
    parameters: listParameters,
    success: Schema.Struct({ ...pageAdvice, ...OperationList.fields }),
    handle: Effect.fnUntraced(function*(query) {
      const reads = yield* AgentReads
      const page = yield* reads.list({ page_size: defaultPageSize, ...query })
      return { advice: adviceOnList(page.operations.length === 0), ...page, ...yield* shownOf(page.operations) }
    })
  }),

  get_operation: readTool({
    title: "Read an operation",
    description: "Reads one operation as it is now. It only reads: nothing is sent to the provider.",
    parameters: Schema.Struct({ id: OperationId }),
    success: OperationAnswer,
    handle: ({ id }) => AgentReads.use((reads) => Effect.flatMap(reads.get(id), answerOf))
  }),

  find_operation_by_key: readTool({
    title: "Find an operation by its idempotency key",
    description:
      "Finds the operation that was requested under an idempotency key, for example after the response was lost. "
      + "It only reads.",
    parameters: Schema.Struct({ idempotency_key: KeyArgument }),
    success: Schema.Struct({
      ...OperationAnswer.fields,
      operation: Schema.NullOr(Operation).annotate({
        description: "Null if the gateway has recorded no request under this key so far."
      })
    }),
    handle: Effect.fnUntraced(function*({ idempotency_key }) {
      const reads = yield* AgentReads
      const { operations: [operation] } = yield* reads.list({ idempotency_key })
      return operation === undefined
        ? { advice: adviceOnUnknownKey, read_again_in_seconds: unknownKeySeconds, operation: null }
        : yield* answerOf(operation)
    })
  }),

  wait_for_operation: readTool({
    title: "Wait for an operation",
    description: "Waits until an operation is final, or the time is over, and returns it as it is then. It only reads. "
      + "Call it again while the operation is not final.",
    parameters: Schema.Struct({
      id: OperationId,
      seconds: Schema.optionalKey(
        Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: maxWaitSeconds })).annotate({
          description: `The longest wait, 1 to ${maxWaitSeconds} seconds; ${defaultWaitSeconds} by default.`
        })
      )
    }),
    success: OperationAnswer,
    handle: ({ id, seconds = defaultWaitSeconds }, report) => waitFor(report, id, seconds)
  }),

  changes_since: readTool({
    title: "Read changes",
    description:
      "Returns the operations that changed since a token, each as it is now. Without a token it starts with the "
      + "oldest operation. It only reads.",
    parameters: changesParameters,
    success: Schema.Struct({ ...pageAdvice, read_again_in_seconds: ReadAgain, ...OperationChanges.fields }),
    handle: Effect.fnUntraced(function*(query) {
      const reads = yield* AgentReads
      const page = yield* reads.changes({ page_size: defaultPageSize, ...query })
      return {
        advice: adviceOnChanges(page.has_more),
        read_again_in_seconds: page.has_more ? 0 : readFeedAgainAfter,
        ...page,
        ...yield* shownOf(page.operations)
      }
    })
  }),

  get_limits: readTool({
    title: "Read the limits",
    description:
      "Reads what this agent may spend: each limit of its grant and of its access token, and what remains of it now. It only reads.",
    parameters: Schema.Record(Schema.String, Schema.Never),
    success: Schema.Struct({ advice: AdviceText, ...GrantLimits.fields }),
    handle: Effect.fnUntraced(function*() {
      const reads = yield* AgentReads
      const { limits } = yield* reads.limits
      return { advice: adviceOnLimits(limits.length === 0), limits }
    })
  })
}

/** Whether a member of a message names one of them. It may be anything: an object of JSON need not become a text. */
export const isOperationTool = (name: unknown): name is string =>
  typeof name === "string" && Object.hasOwn(operationTools, name)

/** Registers the tools. Calls need the `AgentReads` of the request. */
export const OperationTools = Layer.effectDiscard(registerTools(operationTools))
