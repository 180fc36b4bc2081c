/**
 * `resources/subscribe` and `resources/unsubscribe` of version 2025-11-25, for a connection that outlives its requests. A client
 * learns of each change of the operations that it subscribed to.
 */
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { problemKinds } from "../api/ProblemKinds.ts"
import type { Operation, OperationId } from "../domain/Operation.ts"
import { AgentReads, type ReadRefused } from "./AgentReads.ts"
import { changesAmong, maxFollowed } from "./FollowedOperations.ts"
import { errorCodes, type JsonObject, JsonRpcFailure, type JsonRpcNotification } from "./JsonRpc.ts"
import { operationOfUri, uriOfOperation } from "./OperationUri.ts"

/** The pause before the next read when the gateway does not answer, or does not let the request wait. */
const pause = "5 seconds"

/** Whether the refusal may be over soon. */
const isPassing = ({ code }: ReadRefused): boolean => code === "gateway_unreachable" || problemKinds[code].retryable

const idOf = (params: JsonObject): Effect.Effect<OperationId, JsonRpcFailure> => {
  const id = typeof params["uri"] === "string" ? operationOfUri(params["uri"]) : null
  return id === null
    ? Effect.fail(
      new JsonRpcFailure({
        code: errorCodes.invalidParams,
        message: "params.uri must be operation:// with the id of an operation, a lower-case UUIDv7."
      })
    )
    : Effect.succeed(id)
}

const tooMany = new JsonRpcFailure({
  code: errorCodes.invalidParams,
  message: `A connection may subscribe to up to ${maxFollowed} operations. Unsubscribe from others first.`
})

/** A method, from `params` to the result. */
type Method = (params: JsonObject) => Effect.Effect<JsonObject, JsonRpcFailure | ReadRefused, AgentReads>

/**
 * Makes the two methods. A subscription begins with a read, so that a client that reads after the answer misses no change. The
 * operations are watched in the scope until all are final. When a read is refused for good, the client gets an update of each
 * operation: its own read tells it why.
 */
export const makeResourceSubscriptions = Effect.fnUntraced(function*(
  notify: (notification: JsonRpcNotification) => Effect.Effect<void>
): Effect.fn.Return<{ readonly subscribe: Method; readonly unsubscribe: Method }, never, Scope.Scope> {
  const scope = yield* Effect.scope
  /** As read last. Final operations cannot change any more, and leave. */
  const subscribed = new Map<OperationId, Operation>()
  const isChanged = Latch.makeUnsafe()
  let isWatching = false

  const update = (id: OperationId) =>
    notify({ jsonrpc: "2.0", method: "notifications/resources/updated", params: { uri: uriOfOperation(id) } })

  const keep = (operation: Operation) => {
    if (operation.terminal) subscribed.delete(operation.id)
    else subscribed.set(operation.id, operation)
  }

  const announce = (changed: ReadonlyArray<Operation>) =>
    Effect.forEach(changed, (operation) => {
      // The client may have unsubscribed during the read.
      if (!subscribed.has(operation.id)) return Effect.void
      keep(operation)
      return update(operation.id)
    }, { discard: true })

  const refuse = (refused: ReadRefused) => {
    if (isPassing(refused)) return Effect.sleep(pause)
    const ids = [...subscribed.keys()]
    subscribed.clear()
    return Effect.forEach(ids, update, { discard: true })
  }

  const watch = Effect.gen(function*() {
    const reads = yield* AgentReads
    while (subscribed.size > 0) {
      isChanged.closeUnsafe()
      const read = yield* Effect.raceFirst(
        Effect.result(changesAmong(reads, [...subscribed.values()])),
        isChanged.await
      )
      // The client subscribed or unsubscribed. What the read would have found, the next one finds.
      if (read === undefined) continue
      if (Result.isFailure(read)) yield* refuse(read.failure)
      else if (read.success === null) yield* Effect.sleep(pause)
      else yield* announce(read.success)
    }
    isWatching = false
  }).pipe(
    // After a defect, the next subscription watches again.
    Effect.onError(() =>
      Effect.sync(() => {
        isWatching = false
      })
    )
  )

  const subscribe: Method = Effect.fnUntraced(function*(params) {
    const id = yield* idOf(params)
    const reads = yield* AgentReads
    const operation = yield* reads.get(id)
    // After the read: others may have subscribed meanwhile.
    if (subscribed.size >= maxFollowed && !subscribed.has(id)) return yield* tooMany
    keep(operation)
    isChanged.openUnsafe()
    if (!isWatching) {
      isWatching = true
      yield* Effect.forkIn(watch, scope)
    }
    return {}
  })

  const unsubscribe: Method = (params) =>
    Effect.map(idOf(params), (id) => {
      subscribed.delete(id)
      isChanged.openUnsafe()
      return {}
    })

  return { subscribe, unsubscribe }
})
