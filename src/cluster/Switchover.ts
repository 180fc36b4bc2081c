/**
 * A planned switchover without a person who vouches for it: what the ledger does before the promotion, and what it proves after it.
 *
 * Before the promotion it holds every accepted operation on the old primary. Workers of any version leave held operations alone. An
 * operation that still has this very hold on the new primary was not claimed before it, and could not be claimed after it. So
 * releasing it is safe, with any replication. `docs/cluster.md` has the argument in full.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type { ActingOperator } from "../domain/operators/OperatorView.ts"
import type { StoreUnavailable } from "../services/StoreUnavailable.ts"
import type {
  BegunSwitchover,
  FinishedSwitchover,
  SwitchoverRound,
  SwitchoverUnproven,
  WorkersRunning
} from "./PlannedSwitchover.ts"
import { makeSql } from "./SqlSwitchover.ts"

export class Switchover extends Context.Service<Switchover, {
  /**
   * Holds all accepted operations, and records it as `hold_all` of the operator. Reconcilers leave the operations alone for
   * `patience`. It ends no change token.
   */
  readonly begin: (
    operator: ActingOperator,
    patience: Duration.Duration
  ) => Effect.Effect<BegunSwitchover, WorkersRunning | SwitchoverUnproven | StoreUnavailable>
  /** On the old primary, holds what was accepted since, and marks the changes. On another timeline it changes nothing. */
  readonly round: (begun: BegunSwitchover) => Effect.Effect<SwitchoverRound, StoreUnavailable>
  /**
   * Releases the operations that have the hold of `begin` or of a round, and nothing has touched since. It also releases those that
   * the old primary accepted after the last round, if no worker has reported itself since `begin`. `last` is the last round that
   * succeeded on the old primary. It records `release_all`, or why the ledger refused.
   *
   * Without a promotion it takes the holds back.
   */
  readonly finish: (
    begun: BegunSwitchover,
    last: SwitchoverRound | null,
    operator: ActingOperator
  ) => Effect.Effect<FinishedSwitchover, SwitchoverUnproven | StoreUnavailable>
}>()("financial-agents-gateway/cluster/Switchover") {
  static readonly layer: Layer.Layer<Switchover, never, SqlClient.SqlClient> = Layer.effect(
    Switchover,
    Effect.suspend(() => Effect.map(makeSql, (switchover) => Switchover.of(switchover)))
  )
}
