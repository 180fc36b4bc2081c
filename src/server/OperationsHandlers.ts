/** Handlers of the operations endpoints: list, changes, read by id, and limits. */
import * as Effect from "effect/Effect"
import { Api } from "../api/Api.ts"
import { CurrentGrant } from "../api/Middleware.ts"
import * as CompiledGroup from "../dispatch/CompiledGroup.ts"
import { makeOperationReads } from "./reads/OperationReads.ts"
import { limitsResponse, listResponse } from "./reads/OperationResponses.ts"
import { makeWaitingReads } from "./waits/WaitingReads.ts"

/** The gate makes an admitted request interruptible, and answers its interruption (`Admission`). */
const admitted = { uninterruptible: true }

/** Handlers of `OperationsApi`, on the provided `OperationStore`. */
export const OperationsLayer = CompiledGroup.group(
  Api,
  "operations",
  Effect.fn(function*(handlers) {
    const reads = yield* makeOperationReads
    const waiting = yield* makeWaitingReads
    return handlers
      .handle(
        "list",
        ({ query }) => Effect.flatMap(CurrentGrant, (grant) => Effect.map(reads.list(grant, query), listResponse)),
        admitted
      )
      .handle(
        "changes",
        ({ headers, query }) => Effect.flatMap(CurrentGrant, (grant) => waiting.changes(grant, query, headers.prefer)),
        admitted
      )
      .handle(
        "get",
        ({ headers, params }) => Effect.flatMap(CurrentGrant, (grant) => waiting.get(grant, params.id, headers)),
        admitted
      )
      .handle(
        "limits",
        () => Effect.flatMap(CurrentGrant, (grant) => Effect.map(reads.limits(grant), limitsResponse)),
        admitted
      )
  })
)
