/**
 * What operators may do to operations. Each action is recorded with the name of its operator: one that the ledger carries out, in
 * the transaction of the action; one that it refuses, with the reason.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type {
  AlreadySettled,
  IllegalTransition,
  Operation,
  OperationId,
  OperationNotFound
} from "../domain/Operation.ts"
import type { StillHeld } from "../domain/Submission.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

/** An action on one operation. */
export type OperatorAction = "review" | "end_review" | "hold" | "release" | "cancel"

/** Who acts, where, and why. */
export interface ActingOperator {
  /** 1 to 255 characters. */
  readonly name: string
  readonly via: "console" | "command"
  /** Up to 1,024 characters. Null: none given. */
  readonly reason: string | null
}

/** Why the ledger refused an action. */
export type ActionRefusal = OperationNotFound | AlreadySettled | IllegalTransition | StillHeld

export class OperatorActions extends Context.Service<OperatorActions, {
  /**
   * Performs the action. A cancellation has the name and the reason of the operator in its evidence, too.
   *
   * After `StoreUnavailable` it is unknown whether it happened: read the operation again.
   */
  readonly perform: (
    action: OperatorAction,
    id: OperationId,
    operator: ActingOperator
  ) => Effect.Effect<Operation, ActionRefusal | StoreUnavailable>
  /** Holds all accepted operations (`SubmissionQueue.holdAll`), and returns how many. */
  readonly holdAll: (operator: ActingOperator) => Effect.Effect<number, StoreUnavailable>
  /** Releases all held operations (`SubmissionQueue.releaseAll`), and returns how many. */
  readonly releaseAll: (operator: ActingOperator) => Effect.Effect<number, StoreUnavailable>
}>()("financial-agents-gateway/services/OperatorActions") {}
