/**
 * The transport between the gateway and Effect's MCP server, within the process. Each client has an id of its own, and ends with
 * its scope.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type { FromClientEncoded } from "effect/rpc/RpcMessage"
import * as RpcSerialization from "effect/rpc/RpcSerialization"
import * as RpcServer from "effect/rpc/RpcServer"
import type * as Scope from "effect/Scope"
import {
  fromRpc,
  type JsonRpcMessage,
  type JsonRpcRequest,
  type JsonRpcResponse,
  type RequestId,
  toRpc
} from "./JsonRpc.ts"

interface RpcClient {
  /** Sends a request, and returns its response. The handler runs with the services of the calling fiber, and ends with it. */
  readonly call: (request: JsonRpcRequest) => Effect.Effect<JsonRpcResponse>
  /** Sends a message that gets no response. */
  readonly tell: (message: JsonRpcMessage) => Effect.Effect<void>
}

/** Makes clients of the server. */
export class RpcClients extends Context.Service<RpcClients, {
  /** A client for as long as the scope is open. `hear` gets the notifications and requests of the server. */
  readonly connect: (
    hear: (message: JsonRpcMessage) => Effect.Effect<void>
  ) => Effect.Effect<RpcClient, never, Scope.Scope>
}>()("financial-agents-gateway/mcp/RpcClients") {
  /** The clients, and the protocol that Effect's server serves. */
  static readonly layer: Layer.Layer<RpcClients | RpcServer.Protocol> = Layer.suspend(() => Layer.effectContext(make))
}

interface Connected {
  readonly hear: (message: JsonRpcMessage) => Effect.Effect<void>
  readonly pending: Map<RequestId, Deferred.Deferred<JsonRpcResponse>>
}

/** Effect's server would open a session for an HTTP request, and keep it for ever. */
const withoutHttp = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.updateContext(
    effect,
    (context: Context.Context<R>) =>
      Context.omit(HttpServerRequest)(context as Context.Context<R | HttpServerRequest>) as Context.Context<R>
  )

const make = Effect.gen(function*() {
  const clients = new Map<number, Connected>()
  /** The keys of `clients`. Effect's server asks for them at each notification, so they are not copied. */
  const ids = new Set<number>()
  const disconnects = yield* Queue.make<number>()
  let lastId = 0
  let write: (clientId: number, message: FromClientEncoded) => Effect.Effect<void>

  const send = (clientId: number, message: JsonRpcMessage): Effect.Effect<void> => {
    const client = clients.get(clientId)
    if (client === undefined) return Effect.void
    if ("method" in message) return client.hear(message)
    const answered = message.id === null ? undefined : client.pending.get(message.id)
    return answered === undefined ? Effect.void : Effect.asVoid(Deferred.succeed(answered, message))
  }

  const protocol = yield* RpcServer.Protocol.make((writeRequest) => {
    write = writeRequest
    return Effect.succeed({
      disconnects,
      send: (clientId, response) => {
        const message = fromRpc(response)
        return message === null ? Effect.void : send(clientId, message)
      },
      end: () => Effect.void,
      clientIds: Effect.succeed(ids),
      initialMessage: Effect.succeed(Option.none()),
      supportsAck: false,
      supportsTransferables: false,
      supportsSpanPropagation: false,
      supportsNotifications: true,
      codecFor: RpcSerialization.jsonRpc().codecFor
    })
  })

  const connect: RpcClients["Service"]["connect"] = (hear) =>
    Effect.map(
      Effect.acquireRelease(
        Effect.sync(() => {
          const id = ++lastId
          const client: Connected = { hear, pending: new Map() }
          clients.set(id, client)
          ids.add(id)
          return { id, client }
        }),
        ({ id }) =>
          Effect.andThen(
            write(id, { _tag: "Eof" }),
            Effect.sync(() => {
              clients.delete(id)
              ids.delete(id)
              Queue.offerUnsafe(disconnects, id)
            })
          )
      ),
      ({ client: { pending }, id }): RpcClient => ({
        call: (request) =>
          Effect.suspend(() => {
            const answered = Deferred.makeUnsafe<JsonRpcResponse>()
            pending.set(request.id, answered)
            const interrupt = write(id, { _tag: "Interrupt", requestId: request.id as never })
            return withoutHttp(write(id, toRpc(request))).pipe(
              Effect.andThen(Deferred.await(answered)),
              Effect.onInterrupt(() => interrupt),
              Effect.ensuring(Effect.sync(() => pending.delete(request.id)))
            )
          }),
        tell: (message) => withoutHttp(write(id, toRpc(message)))
      })
    )

  return Context.make(RpcServer.Protocol, protocol).pipe(Context.add(RpcClients, RpcClients.of({ connect })))
})
