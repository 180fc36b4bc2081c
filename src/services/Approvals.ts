/**
 * Approvals: operations that wait for a person, and the decisions about them. For the page of an application, whose session proves the
 * person, and for operators. Offer it to no client: the requesting client never decides.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import {
  type Approval,
  type Decision,
  DecisionRefused,
  type PendingApprovals,
  type PendingOwners
} from "../domain/Approval.ts"
import type { ResourceOwner } from "../domain/Grant.ts"
import type { OperationId } from "../domain/Operation.ts"
import { makeMemory } from "./memory/MemoryApprovals.ts"
import type { MemoryLedger } from "./memory/MemoryLedger.ts"
import { makeSql } from "./sql/ledger/SqlApprovals.ts"
import type { StoreUnavailable } from "./StoreUnavailable.ts"

export { DecisionRefused }
export type { Approval, Decision }

/**
 * Terms are shown in full: show them to the resource owner, or record that an operator saw them. Terms that the keys of this process do
 * not open are masked.
 */
export class Approvals extends Context.Service<Approvals, {
  /** The operations that wait for a decision, that which ends first in front. */
  readonly pending: (which?: PendingApprovals) => Effect.Effect<ReadonlyArray<Approval>, StoreUnavailable>
  /**
   * The resource owners whose operations wait, each once, by name. For a program that serves them in turn: one list of all operations may
   * have those of one owner alone.
   */
  readonly owners: (which?: PendingOwners) => Effect.Effect<ReadonlyArray<ResourceOwner>, StoreUnavailable>
  /** The approval of an operation, decided or not. Null: it needed none, or does not exist. */
  readonly find: (id: OperationId) => Effect.Effect<Approval | null, StoreUnavailable>
  /**
   * Decides once, in one transaction with the effect: an approved operation may be sent, a denied one is cancelled. Each decision is
   * recorded as an action of the operation, also a refused one with its reason.
   *
   * After `StoreUnavailable` it is unknown whether the decision was recorded: find the approval again.
   */
  readonly decide: (decision: Decision) => Effect.Effect<Approval, DecisionRefused | StoreUnavailable>
  /** Records a decision that the application itself refuses, such as one with a forged proof, and why. It decides nothing. */
  readonly recordRefused: (decision: Decision, why: string) => Effect.Effect<void, StoreUnavailable>
}>()("financial-agents-gateway/services/Approvals") {
  static readonly layer: Layer.Layer<Approvals, never, SqlClient.SqlClient> = Layer.effect(
    Approvals,
    Effect.suspend(() => Effect.map(makeSql, (approvals) => Approvals.of(approvals)))
  )

  static readonly layerMemory: Layer.Layer<Approvals, never, MemoryLedger> = Layer.effect(
    Approvals,
    Effect.suspend(() => Effect.map(makeMemory, (approvals) => Approvals.of(approvals)))
  )
}
