/**
 * Requests of the gateway to a client of version 2025-11-25 over HTTP, such as `elicitation/create`.
 *
 * The request goes out on the event stream of the client's own call. The answer comes in another POST, and no session connects
 * the two. So each request has an id that cannot be guessed, and only the grant of the call may answer it. The answer must reach
 * the same process: elsewhere no call waits for it.
 */
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { GrantIdentity } from "../../domain/Grant.ts"
import { longestAnswer } from "../../mcp/HumanConfirmation.ts"
import {
  errorCodes,
  errorResponse,
  type JsonRpcMessage,
  type JsonRpcNotification,
  type JsonRpcRequest,
  type JsonRpcResponse,
  type RequestId
} from "../../mcp/JsonRpc.ts"
import { Lifecycle, type RunningRequest } from "../gate/Lifecycle.ts"

/** A call of a client, during which the gateway may ask it. */
export interface ClientCall {
  readonly grant: GrantIdentity
  readonly slot: RunningRequest | null
  /** The client's own id of the call. */
  readonly id: RequestId
  /** Sends a message on the event stream of the call. */
  readonly send: (message: JsonRpcMessage) => Effect.Effect<void>
  /** Hands a message to the call, as if it came on the same connection. */
  readonly receive: (message: JsonRpcMessage) => Effect.Effect<void>
}

interface Pending {
  readonly call: ClientCall
  /** The id under which the MCP server knows the request. */
  readonly id: RequestId
}

const isSameGrant = (a: GrantIdentity, b: GrantIdentity) =>
  a.grant_id === b.grant_id && a.client_id === b.client_id && a.subject === b.subject

const failure = (id: RequestId, message: string) => errorResponse(id, { code: errorCodes.internalError, message })

/** Makes the requests of a process. A call that waits for its client has no slot and no deadline, and is limited as waits are. */
export const makeClientRequests = Effect.gen(function*() {
  const lifecycle = yield* Lifecycle
  const random = yield* SecureRandom.SecureRandom
  const pending = new Map<RequestId, Pending>()

  const idsOf = (call: ClientCall) => [...pending].filter(([, other]) => other.call === call).map(([id]) => id)

  /** Hands the response to the call that waits for it, once. */
  const settle = (id: RequestId, respond: (id: RequestId) => JsonRpcResponse): Effect.Effect<boolean> =>
    Effect.suspend(() => {
      const found = pending.get(id)
      if (found === undefined) return Effect.succeed(false)
      pending.delete(id)
      const { call } = found
      // Each answer is a request with a slot of its own, which limits how many calls resume at once.
      if (call.slot?.isParked === true && idsOf(call).length === 0) lifecycle.resume(call.slot)
      return Effect.as(call.receive(respond(found.id)), true)
    })

  const giveUp = (call: ClientCall, id: RequestId, reason: string) =>
    Effect.flatMap(settle(id, (own) => failure(own, reason)), (wasPending) =>
      wasPending
        ? call.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id, reason } })
        : Effect.void)

  return {
    /** Sends a request of the server to the client of the call, if it reads events. The timer runs in the scope. */
    ask: Effect.fnUntraced(function*(
      call: ClientCall,
      request: JsonRpcRequest,
      takesEvents: boolean,
      scope: Scope.Scope
    ) {
      const { slot } = call
      const id = yield* random.uuidV4()
      const shutdown = Effect.suspend(() =>
        Effect.forEach(idsOf(call), (open) => giveUp(call, open, "The gateway is shutting down"), { discard: true })
      )
      const runFork = Effect.runForkWith(yield* Effect.context<never>())
      if (!takesEvents || slot === null || (!slot.isParked && !lifecycle.park(slot, () => void runFork(shutdown)))) {
        return yield* call.receive(failure(request.id, "The gateway does not let the call wait"))
      }
      pending.set(id, { call, id: request.id })
      yield* Effect.forkIn(
        Effect.delay(giveUp(call, id, "No answer came in time"), `${longestAnswer} seconds`),
        scope
      )
      yield* lifecycle.isDraining() ? shutdown : call.send({ ...request, id })
    }),

    /** Hands an answer of a client to the call that waits for it. False if none of this grant does in this process. */
    answer: (grant: GrantIdentity, response: JsonRpcResponse): Effect.Effect<boolean> => {
      const found = response.id === null ? undefined : pending.get(response.id)
      return response.id !== null && found !== undefined && isSameGrant(found.call.grant, grant)
        ? settle(response.id, (id) => ({ ...response, id }))
        : Effect.succeed(false)
    },

    /**
     * Ends the waiting call of the grant that the notification names: a client cancels a call in a POST of its own. Clients count
     * their ids from 1, so several of a grant may use one id at once. Then no call ends: it may be that of another client.
     */
    cancel: (grant: GrantIdentity, notification: JsonRpcNotification): Effect.Effect<void> => {
      const calls = new Set(
        [...pending.values()].map(({ call }) => call).filter((call) =>
          isSameGrant(call.grant, grant) && call.id === notification.params?.["requestId"]
        )
      )
      const [call] = calls
      return call === undefined || calls.size > 1 ? Effect.void : call.receive(notification)
    },

    /** Forgets the requests of a call that ended. Later answers find none. */
    end: (call: ClientCall): void => {
      for (const id of idsOf(call)) pending.delete(id)
    }
  }
})

/** The requests of a process. */
export type ClientRequests = Effect.Success<typeof makeClientRequests>
