import * as Effect from "effect/Effect"
import { AgentReads, type ReadRefused } from "./AgentReads.ts"
import type { JsonObject, JsonRpcFailure, JsonRpcNotification, JsonRpcRequest } from "./JsonRpc.ts"
export const listen = (
  _request: JsonRpcRequest,
  _notify: (notification: JsonRpcNotification) => Effect.Effect<void>
): Effect.Effect<JsonObject, JsonRpcFailure | ReadRefused, AgentReads> => Effect.andThen(AgentReads, Effect.succeed({}))
