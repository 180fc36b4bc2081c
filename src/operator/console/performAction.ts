/**
 * One action of an operator on the operation as the operator saw it, and the operation after it.
 */
import * as Effect from "effect/Effect"
import type { OperationId } from "../../domain/Operation.ts"
import type { ActionRefusal } from "../../domain/operators/OperatorView.ts"
import { OperationSearch } from "../../services/operators/OperationSearch.ts"
import { OperatorActions } from "../../services/operators/OperatorActions.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import type { ActionRequest } from "./ConsoleApi.ts"
import { inTime, logStoreFailure, readLedger } from "./readLedger.ts"

const refusalCodes = {
  OperationNotFound: "operation_not_found",
  AlreadySettled: "already_settled",
  IllegalTransition: "illegal_transition",
  StillHeld: "still_held",
  StaleOperation: "moved_on"
} as const

const unknownResult = {
  code: "unknown_result",
  message: "It is unknown whether it happened: read the operation again."
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
    const performed = inTime(actions.perform(action, id, { name: operator, via: "console", reason }, revision))
    yield* Effect.catch(performed, refuseAction)
    return yield* Effect.mapError(readLedger(search.detail(id)), () => doneButUnread)
  })
})
