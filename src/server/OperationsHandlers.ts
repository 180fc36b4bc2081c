/**
 * Handlers of the operations endpoints: list, changes, and read by id.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { Api } from "../api/Api.ts"
import { CurrentGrant } from "../api/Middleware.ts"
import { makeOperationReads } from "./reads/OperationReads.ts"
import type { OperationResponse } from "./reads/OperationResponses.ts"
import { makeWaitingReads } from "./waits/WaitingReads.ts"

const send = ({ body, headers, status }: OperationResponse): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.setHeaders(
    status === 304 ? HttpServerResponse.empty({ status }) : HttpServerResponse.text(body),
    headers
  )

/** The gate makes an admitted request interruptible, and answers its interruption (`Admission`). */
const admitted = { uninterruptible: true }

/** Handlers of `OperationsApi`, on the provided `OperationStore`. */
export const OperationsLayer = HttpApiBuilder.group(
  Api,
  "operations",
  Effect.fn(function*(handlers) {
    const reads = yield* makeOperationReads
    const waiting = yield* makeWaitingReads
    return handlers
      .handle(
        "list",
        ({ query }) => Effect.flatMap(CurrentGrant, (grant) => Effect.map(reads.list(grant, query), send)),
        admitted
      )
      .handle(
        "changes",
        ({ headers, query }) =>
          Effect.flatMap(CurrentGrant, (grant) => Effect.map(waiting.changes(grant, query, headers.prefer), send)),
        admitted
      )
      .handle(
        "get",
        ({ headers, params }) =>
          Effect.flatMap(CurrentGrant, (grant) => Effect.map(waiting.get(grant, params.id, headers), send)),
        admitted
      )
  })
)
