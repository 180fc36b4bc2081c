import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { InvalidSetting } from "../../domain/InvalidSetting.ts"
import type { Claim, ClaimBatch } from "../../domain/Submission.ts"
import type { Claims } from "../../services/queue/Claims.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { repeatStatement } from "../storeStatements.ts"

/** What a worker process does before a batch of its claims is sent. */
export interface ClaimRecorder {
  readonly terms: () => { readonly recorded_by?: string }
  readonly admits: Effect.Effect<boolean>
  /** Records the batches of these claims elsewhere. Yields the batches that may not be sent, each with the reason. */
  readonly record: (claims: ReadonlyArray<Claim>) => Effect.Effect<ReadonlyMap<ClaimBatch | undefined, string>>
  /** Begins the work beside the worker, which ends with the scope. */
  readonly begin: Effect.Effect<void, never, Scope.Scope>
}

const nothing: ReadonlyMap<ClaimBatch | undefined, string> = new Map()

/** Records nothing. If the ledger requires records, such a worker claims nothing, and says so. */
const recordNothing = ({ requiresRecords }: Claims["Service"]): ClaimRecorder => ({
  terms: () => ({}),
  admits: Effect.succeed(true),
  record: () => Effect.succeed(nothing),
  begin: repeatStatement({
    statement: Effect.flatMap(requiresRecords, (isRequired) =>
      isRequired
        ? Effect.logError("The ledger has a witness, and this process has none: it claims nothing. Set WITNESS")
        : Effect.void),
    failure: "Could not ask whether the ledger has a witness; the next look asks again",
    interval: Duration.minutes(1)
  })
})

/** Makes the recorder of a worker process. Default: nothing is recorded before a batch is sent. */
export const ClaimRecorders = Context.Reference<
  (claims: Claims["Service"]) => Effect.Effect<ClaimRecorder, InvalidSetting | StoreUnavailable, Scope.Scope>
>("financial-agents-gateway/submission/attempts/ClaimRecorders", {
  defaultValue: () => (claims) => Effect.succeed(recordNothing(claims))
})
