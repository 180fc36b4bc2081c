/**
 * Records outcomes in batches: while a statement is under way, outcomes gather for the next one. So a busy process commits
 * once for many outcomes, and a single outcome does not wait.
 */
import type * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type { OperationNotFound, StaleOperation } from "../../domain/Operation.ts"
import type { OutcomeRecord } from "../../domain/Submission.ts"
import type { Outcomes } from "../../services/queue/Outcomes.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { gatherCalls, type WaitingCall } from "../gatherCalls.ts"
import { withinStore } from "../storeStatements.ts"

const largestBatch = 100

/**
 * Most characters of evidence of one statement, unless one outcome alone has more. PostgreSQL records a million in a tenth of a
 * second. A hundred bodies of the largest size would take longer than a statement may, again and again.
 */
const mostEvidence = 1_000_000

/** Milliseconds after which the next batch no longer waits for a statement. A lock or a dead connection may hold that up. */
const patience = 100

type RecordFailure = StaleOperation | OperationNotFound | StoreUnavailable

export interface OutcomeRecorder {
  /**
   * As `Outcomes.record`, and perhaps together with other outcomes. Each of its statements ends within `storeTimeout`: at
   * most one for a batch, and one for this outcome alone. An interruption ends the wait of the caller, and no statement.
   */
  readonly record: (record: OutcomeRecord) => Effect.Effect<void, RecordFailure>
}

/** An outcome, with the context of its caller: the span, and the annotations of its log lines. */
interface Call {
  readonly record: OutcomeRecord
  readonly size: number
  readonly context: Context.Context<never>
}

type Waiting = WaitingCall<Call, void, RecordFailure>

/** The characters of the evidence. Infinite if it is no JSON, as from an adapter without type checks: it goes alone. */
const sizeOf = ({ recording }: OutcomeRecord): number => {
  try {
    return JSON.stringify(recording.evidence).length
  } catch {
    return Infinity
  }
}

/** How many of these outcomes go together: at least one. */
const countOfBatch = (waiting: ReadonlyArray<Waiting>): number => {
  let count = 0
  for (let size = 0; count < Math.min(waiting.length, largestBatch); count++) {
    size += waiting[count]!.call.size
    if (size > mostEvidence && count > 0) break
  }
  return count
}

/**
 * Makes the recorder of a process. Batches run in the context of this effect, because they hold outcomes of several callers. An
 * outcome that is recorded alone has the context of its caller.
 */
export const makeOutcomeRecorder = Effect.fnUntraced(function*(outcomes: Outcomes["Service"]) {
  const recordAlone = (
    { answer, call: { context, record: { id, outcome, recording, revision } } }: Waiting
  ) =>
    Effect.suspend(() => withinStore(outcomes.record(id, revision, outcome, recording))).pipe(
      Effect.asVoid,
      Effect.provideContext(context),
      Deferred.into(answer)
    )

  /**
   * An outcome that the batch did not record is recorded alone: that waits for a locked row, and finds the reason of a refusal. So
   * is each outcome of a batch that died, because one of them may break a rule of the database.
   */
  const recordTogether = Effect.fnUntraced(function*(batch: ReadonlyArray<Waiting>) {
    if (batch.length === 1) return yield* recordAlone(batch[0]!)
    const exit = yield* Effect.exit(
      Effect.suspend(() => withinStore(outcomes.recordAll(batch.map(({ call }) => call.record))))
    )
    if (Exit.isFailure(exit) && !Exit.hasDies(exit)) {
      for (const { answer } of batch) Deferred.doneUnsafe(answer, Exit.failCause(exit.cause))
      return
    }
    const isRecorded = (index: number) => Exit.isSuccess(exit) && exit.value[index] === true
    const others = batch.filter((_, index) => !isRecorded(index))
    for (const { answer } of batch.filter((_, index) => isRecorded(index))) Deferred.doneUnsafe(answer, Exit.void)
    yield* Effect.forEach(others, recordAlone, { concurrency: "unbounded", discard: true })
  })

  const run = Effect.fnUntraced(function*(batch: ReadonlyArray<Waiting>) {
    const fiber = yield* Effect.forkDetach(recordTogether(batch), { startImmediately: true })
    yield* Effect.raceFirst(Fiber.await(fiber), Effect.sleep(patience))
  })

  const join = gatherCalls(yield* Effect.context<never>(), run, countOfBatch)
  return {
    record: (record) =>
      Effect.contextWith((context: Context.Context<never>) => join({ record, size: sizeOf(record), context }))
  } satisfies OutcomeRecorder as OutcomeRecorder
})
