/**
 * Operations as tasks of the extension SEP-2663: `tasks/get`, `tasks/update` and `tasks/cancel`. A task is an operation, with the
 * same id. The methods only read.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { isOperationId, type Operation, type OperationId } from "../domain/Operation.ts"
import { formatTimestamp } from "../domain/Timestamp.ts"
import { adviceOnCancel, adviceOnRefusal } from "./Advice.ts"
import { AgentReads, type ReadRefused } from "./AgentReads.ts"
import { capabilitiesMember, errorCodes, type JsonObject, JsonRpcFailure } from "./JsonRpc.ts"
import { answerOf, type OperationAnswer, toolResultOf } from "./OperationAnswer.ts"

/** The identifier of the extension. */
export const tasksExtension = "io.modelcontextprotocol/tasks"

const AnyObject = Schema.Record(Schema.String, Schema.Unknown)

/** Whether the client declares the extension with this request. Declarations of earlier requests do not count. */
export const declaresTasks: (params: JsonObject) => boolean = Schema.is(Schema.Struct({
  _meta: Schema.Struct({
    [capabilitiesMember]: Schema.Struct({ extensions: Schema.Struct({ [tasksExtension]: AnyObject }) })
  })
}))

/** Fails with `-32021` unless the client declares the extension with this request. */
const requireTasks = (params: JsonObject): Effect.Effect<void, JsonRpcFailure> =>
  declaresTasks(params) ? Effect.void : Effect.fail(
    new JsonRpcFailure({
      code: errorCodes.missingClientCapability,
      message: `The request needs the client capability ${tasksExtension}: declare it in _meta of each request.`,
      data: { requiredCapabilities: { extensions: { [tasksExtension]: {} } } }
    })
  )

/**
 * The members of `Task`. Every final operation is a completed task: the status `failed` is for errors of JSON-RPC alone, and the
 * result tells a failed or cancelled operation.
 */
const taskMembers = (answer: OperationAnswer): JsonObject => {
  const { advice, operation, read_again_in_seconds } = answer
  return {
    taskId: operation.id,
    status: operation.terminal ? "completed" : "working",
    statusMessage: advice,
    createdAt: formatTimestamp(operation.created_at.epochMilliseconds),
    lastUpdatedAt: formatTimestamp(operation.updated_at.epochMilliseconds),
    // The gateway deletes no operation because of its age.
    ttlMs: null,
    ...(read_again_in_seconds === null ? {} : { pollIntervalMs: read_again_in_seconds * 1000 })
  }
}

/** The `DetailedTask` of an operation as it is now. A completed one holds what `wait_for_operation` would answer. */
export const taskOf = (operation: Operation): Effect.Effect<JsonObject> =>
  Effect.map(answerOf(operation), (answer) => ({
    ...taskMembers(answer),
    // The result of a task is a result of 2026-07-28, which clients check for its type.
    ...(operation.terminal ? { result: { resultType: "complete", ...toolResultOf(answer) } } : {})
  }))

/** The `CreateTaskResult` for an operation. Send it only to a client that declares the extension. */
export const createdTask = (operation: Operation): Effect.Effect<JsonObject> =>
  Effect.map(answerOf(operation), (answer) => ({ resultType: "task", ...taskMembers(answer) }))

/** What `tasks/cancel` answers. The result has no other place for words. */
const notCancelled = { resultType: "complete", _meta: { "financial-agents-gateway/reason": adviceOnCancel } }

const noTask = new JsonRpcFailure({
  code: errorCodes.invalidParams,
  message: `There is no such task. ${adviceOnRefusal("operation_not_found")}`
})

const taskIdOf = ({ taskId }: JsonObject): Effect.Effect<OperationId, JsonRpcFailure> =>
  isOperationId(taskId) ? Effect.succeed(taskId) : Effect.fail(
    new JsonRpcFailure({
      code: errorCodes.invalidParams,
      message: "params.taskId must be the id of an operation, a lower-case UUIDv7."
    })
  )

/** Reads the operation of the task. An unknown task and one of another owner fail alike. */
const readTask = Effect.fnUntraced(function*(params: JsonObject) {
  yield* requireTasks(params)
  const id = yield* taskIdOf(params)
  const reads = yield* AgentReads
  return yield* Effect.catchIf(
    reads.get(id),
    ({ code }) => code === "operation_not_found",
    () => Effect.fail(noTask)
  )
})

/** A method of the extension, from `params` to the result. */
type TaskMethod = (params: JsonObject) => Effect.Effect<JsonObject, JsonRpcFailure | ReadRefused, AgentReads>

/** The methods of the extension by name. Each checks the capability of the client, the task id and the grant. */
export const taskMethods: ReadonlyMap<string, TaskMethod> = new Map<string, TaskMethod>([
  [
    "tasks/get",
    (params) =>
      Effect.flatMap(
        readTask(params),
        (operation) => Effect.map(taskOf(operation), (task) => ({ resultType: "complete", ...task }))
      )
  ],
  // A task never asks for input, so no response is outstanding. SEP-2663 lets a server ignore all others.
  ["tasks/update", (params) => Effect.as(readTask(params), { resultType: "complete" })],
  ["tasks/cancel", (params) => Effect.as(readTask(params), notCancelled)]
])
