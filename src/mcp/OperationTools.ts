/**
 * The tools that read operations and limits: names, parameters and answers. None changes anything. `OperationToolHandlers` implements them.
 *
 * The room `mcp`: the tools of language-model agents, without a transport. Read this file first.
 *
 * Their schemas are those of the HTTP API (`api/OperationsApi`), with the advice on what was read.
 */
import { McpRequestContext } from "effect/ai/McpSchema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
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
import { AgentReads } from "./AgentReads.ts"
import { AdviceText, OperationAnswer, ReadAgain } from "./OperationAnswer.ts"

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
export const defaultPageSize = 20

/** The longest wait of a tool call, in seconds. Many hosts end a call after a minute. */
const maxWaitSeconds = 55

export const defaultWaitSeconds = 45

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

/** The advice on a page, before its operations. */
const pageAdvice = {
  advice: AdviceText,
  advice_by_state: Schema.Array(StateAdvice).annotate({ description: "The advice on each state in this page." })
}

/** A read that the gateway refused. The message is the JSON text that the model reads. */
export class ToolRefusal extends Schema.TaggedError<ToolRefusal>()("ToolRefusal", { message: Schema.String }) {}

/** Marks a tool that only reads, so that a host may call it without asking the human. */
const reading = <T extends Tool.Any>(title: string, tool: T): T =>
  tool
    .annotate(Tool.Title, title)
    .annotate(Tool.Strict, true)
    .annotate(Tool.Readonly, true)
    .annotate(Tool.Destructive, false)
    .annotate(Tool.Idempotent, true)
    .annotate(Tool.OpenWorld, false) as T

const common = { failure: ToolRefusal, dependencies: [AgentReads] }

const listOperations = Tool.make("list_operations", {
  ...common,
  description: "Lists the operations that this agent requested for its user, newest first. It only reads.",
  parameters: listParameters,
  success: Schema.Struct({ ...pageAdvice, ...OperationList.fields })
})

const getOperation = Tool.make("get_operation", {
  ...common,
  description: "Reads one operation as it is now. It only reads: nothing is sent to the provider.",
  parameters: Schema.Struct({ id: OperationId }),
  success: OperationAnswer
})

const findOperationByKey = Tool.make("find_operation_by_key", {
  ...common,
  description:
    "Finds the operation that was requested under an idempotency key, for example after the response was lost. "
    + "It only reads.",
  parameters: Schema.Struct({ idempotency_key: KeyArgument }),
  success: Schema.Struct({
    ...OperationAnswer.fields,
    operation: Schema.NullOr(Operation).annotate({
      description: "Null if the gateway has recorded no request under this key so far."
    })
  })
})

const waitForOperation = Tool.make("wait_for_operation", {
  ...common,
  dependencies: [AgentReads, McpRequestContext],
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
  success: OperationAnswer
})

const changesSince = Tool.make("changes_since", {
  ...common,
  description:
    "Returns the operations that changed since a token, each as it is now. Without a token it starts with the "
    + "oldest operation. It only reads.",
  parameters: changesParameters,
  success: Schema.Struct({ ...pageAdvice, read_again_in_seconds: ReadAgain, ...OperationChanges.fields })
})

const getLimits = Tool.make("get_limits", {
  ...common,
  description:
    "Reads what this agent may spend: each limit of its grant and of its access token, and what remains of it now. It only reads.",
  success: Schema.Struct({ advice: AdviceText, ...GrantLimits.fields })
})

/** The tools of every gateway. */
export const OperationTools = Toolkit.make(
  reading("List operations", listOperations),
  reading("Read an operation", getOperation),
  reading("Find an operation by its idempotency key", findOperationByKey),
  reading("Wait for an operation", waitForOperation),
  reading("Read changes", changesSince),
  reading("Read the limits", getLimits)
)
