/**
 * One action of an operator: the revision that the operator saw, the action, and the operation after it.
 */
import * as Effect from "effect/Effect"
import type { OperationId } from "../../domain/Operation.ts"
import { OperationSearch } from "../../services/OperationSearch.ts"
import { type ActionRefusal, OperatorActions } from "../../services/OperatorActions.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import type { ActionRequest } from "./ConsoleApi.ts"
import { inTime, logStoreFailure, readLedger } from "./readLedger.ts"

const refusalCodes = {
  OperationNotFound: "operation_not_found",
  AlreadySettled: "already_settled",
  IllegalTransition: "illegal_transition",
  StillHeld: "still_held"
} as const

const unknownResult = {
  code: "unknown_result",
  message: "It is unknown whether it happened: read the operation again."
} as const

const movedOn = {
  code: "moved_on",
  message: "The operation has changed since you saw it. Read it again before you decide."
} as const

const doneButUnread = {
  code: "done_but_unread",
  message: "The action was carried out. The operation could not be read after it: read it again."
} as const

/** The refusal of an action that the ledger refused, with its reason, or did not answer. */
const refuseAction = Effect.fnUntraced(function*(error: ActionRefusal | StoreUnavailable) {
  if (error._tag !== "StoreUnavailable") {
    return yield* Effect.fail({ code: refusalCodes[error._tag], message: error.message })
  }
  yield* logStoreFailure("The result of an operator's action is unknown", error)
  return yield* Effect.fail(unknownResult)
})

/** Performs the action, and returns the operation after it. Fails with the code and the message of a refusal. */
export const makePerformAction = Effect.gen(function*() {
  const search = yield* OperationSearch
  const actions = yield* OperatorActions
  return Effect.fnUntraced(function*(id: OperationId, operator: string, request: typeof ActionRequest.Type) {
    const { action, reason, revision } = request
    const seen = yield* readLedger(search.detail(id))
    if (seen.operation.revision !== revision) return yield* Effect.fail(movedOn)
    const performed = inTime(actions.perform(action, id, { name: operator, via: "console", reason }))
    yield* Effect.catch(performed, refuseAction)
    return yield* Effect.mapError(readLedger(search.detail(id)), () => doneButUnread)
  })
})
