/**
 * `subscriptions/listen` of MCP 2026-07-28: a client learns of the changes of operations, as resources and as tasks.
 *
 * The server compares each operation with the form that it read last. So no change is missed between two reads, and there is no
 * token that may expire. Several quick changes may arrive as one, which has the last state. A review that begins and ends between two
 * reads may stay unannounced: it changes no revision.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { isOperationId, type Operation, type OperationId } from "../domain/Operation.ts"
import { AgentReads, differs, type ReadRefused } from "./AgentReads.ts"
import { changesAmong, maxFollowed } from "./FollowedOperations.ts"
import {
  errorCodes,
  type JsonObject,
  JsonRpcFailure,
  type JsonRpcNotification,
  type JsonRpcRequest,
  type RequestId
} from "./JsonRpc.ts"
import { requireTasks, taskOf } from "./OperationTasks.ts"
import { operationOfUri } from "./OperationUri.ts"
import { reasonMember } from "./Reasons.ts"

const Flag = Schema.optionalKey(Schema.Boolean)
const Texts = Schema.optionalKey(Schema.Array(Schema.String))

/** The parameters. The lists of tools, prompts and resources never change, so their flags are checked and not honoured. */
const ListenParams = Schema.Struct({
  notifications: Schema.Struct({
    toolsListChanged: Flag,
    promptsListChanged: Flag,
    resourcesListChanged: Flag,
    resourceSubscriptions: Texts,
    taskIds: Texts
  })
})

const decodeParams = Schema.decodeUnknownEffect(ListenParams)

/** What a client asks for. */
interface Wanted {
  /** The URIs by operation. */
  readonly uris: ReadonlyMap<OperationId, string>
  readonly tasks: ReadonlySet<OperationId>
}

const invalidParams = (message: string) => new JsonRpcFailure({ code: errorCodes.invalidParams, message })

const filterForm =
  "params.notifications must be an object. Its resourceSubscriptions and taskIds are arrays of strings."

/** Checks the parameters. A URI or task id of another form names no operation, so it is left out like an unknown one. */
const wantedOf = Effect.fnUntraced(function*(params: JsonObject) {
  const { notifications } = yield* Effect.mapError(decodeParams(params), () => invalidParams(filterForm))
  const { resourceSubscriptions = [], taskIds } = notifications
  if (taskIds !== undefined) yield* requireTasks(params)
  const uris = new Map<OperationId, string>()
  for (const uri of resourceSubscriptions) {
    const id = operationOfUri(uri)
    if (id !== null) uris.set(id, uri)
  }
  const wanted: Wanted = { uris, tasks: new Set(taskIds?.filter(isOperationId)) }
  if (operationsOf(wanted).length > maxFollowed) {
    return yield* invalidParams(`params.notifications may name up to ${maxFollowed} operations.`)
  }
  return wanted
})

const operationsOf = ({ tasks, uris }: Wanted): ReadonlyArray<OperationId> => [...new Set([...uris.keys(), ...tasks])]

/** The operations that the grant may read. One read at a time: a request must not take more of the store than others do. */
const readAll = Effect.fnUntraced(function*(reads: AgentReads["Service"], ids: ReadonlyArray<OperationId>) {
  const read = (id: OperationId) =>
    Effect.catchIf(reads.get(id), ({ code }) => code === "operation_not_found", () => Effect.succeed(null))
  const operations = yield* Effect.forEach(ids, read)
  return operations.filter((operation) => operation !== null)
})

/** The part of the filter that the server honours. */
const honoured = ({ tasks, uris }: Wanted, readable: ReadonlySet<OperationId>): JsonObject => {
  const resourceSubscriptions = [...uris].filter(([id]) => readable.has(id)).map(([, uri]) => uri)
  const taskIds = [...tasks].filter((id) => readable.has(id))
  return {
    ...(resourceSubscriptions.length === 0 ? {} : { resourceSubscriptions }),
    ...(taskIds.length === 0 ? {} : { taskIds })
  }
}

/** The notifications of a change. A task is in the form in which `tasks/get` would return it now. */
const notificationsOf = Effect.fnUntraced(function*({ tasks, uris }: Wanted, operation: Operation) {
  const uri = uris.get(operation.id)
  const updated = uri === undefined ? [] : [{ method: "notifications/resources/updated", params: { uri } }]
  if (!tasks.has(operation.id)) return updated
  return [...updated, { method: "notifications/tasks", params: yield* taskOf(operation) }]
})

/** An operation that is not final. */
interface Followed {
  /** As read last. */
  read: Operation
  /** As announced last. */
  announced: Operation
}

/**
 * Announces each change until all operations are final. False if the gateway does not let the request wait, such as at a
 * shutdown.
 *
 * After the ledger was put back to an earlier state, revisions count from there. Lower ones than those announced are not
 * announced, except the final one, which is the last.
 */
const follow = Effect.fnUntraced(function*(
  reads: AgentReads["Service"],
  operations: ReadonlyArray<Operation>,
  announce: (operation: Operation) => Effect.Effect<void>
) {
  const followed = new Map<OperationId, Followed>()
  for (const operation of operations) {
    // It may have become final after the client read it last.
    if (operation.terminal) yield* announce(operation)
    else followed.set(operation.id, { read: operation, announced: operation })
  }
  while (followed.size > 0) {
    const changed = yield* changesAmong(reads, [...followed.values()].map(({ read }) => read))
    if (changed === null) return false
    for (const operation of changed) {
      const known = followed.get(operation.id)
      if (known === undefined) continue
      known.read = operation
      if (operation.terminal) followed.delete(operation.id)
      else if (operation.revision < known.announced.revision || !differs(operation, known.announced)) continue
      known.announced = operation
      yield* announce(operation)
    }
  }
  return true
})

const noOperations = "The grant may read none of the operations that the subscription names."

const allFinal = "All operations of the subscription are final. Nothing can change any more."

const noMoreWaits =
  "The gateway ends the subscription, because it shuts down or too many requests wait. Read the operations, or listen again later."

const subscriptionOf = (id: RequestId) => ({ "io.modelcontextprotocol/subscriptionId": id })

/**
 * Answers `subscriptions/listen`: acknowledges the operations that the grant may read, and then notifies of each change. An
 * operation that is final at the beginning is announced at once. A client that reads after the acknowledgement misses nothing.
 *
 * It ends when all operations are final, or when the gateway does not let the request wait. Each read checks the grant, and a
 * refusal ends it. The caller interrupts it when the client leaves. While `notify` waits, it reads nothing.
 */
export const listen = Effect.fnUntraced(function*(
  { id, params = {} }: JsonRpcRequest,
  notify: (notification: JsonRpcNotification) => Effect.Effect<void>
): Effect.fn.Return<JsonObject, JsonRpcFailure | ReadRefused, AgentReads> {
  const wanted = yield* wantedOf(params)
  const reads = yield* AgentReads
  const operations = yield* readAll(reads, operationsOf(wanted))
  const _meta = subscriptionOf(id)
  const send = (method: string, members: JsonObject) =>
    notify({ jsonrpc: "2.0", method, params: { ...members, _meta } })
  const notifications = honoured(wanted, new Set(operations.map((operation) => operation.id)))
  yield* send("notifications/subscriptions/acknowledged", { notifications })
  const announce = Effect.fnUntraced(function*(operation: Operation) {
    for (const { method, params } of yield* notificationsOf(wanted, operation)) yield* send(method, params)
  })
  const isOver = yield* follow(reads, operations, announce)
  const reason = operations.length === 0 ? noOperations : isOver ? allFinal : noMoreWaits
  return { resultType: "complete", _meta: { ..._meta, [reasonMember]: reason } }
})
