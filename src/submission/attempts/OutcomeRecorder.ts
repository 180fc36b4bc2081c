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

interface Waiting {
  readonly record: OutcomeRecord
  readonly size: number
  readonly recorded: Deferred.Deferred<void, RecordFailure>
  /** The context of the caller, with its span and the annotations of its log lines. */
  readonly context: Context.Context<never>
}

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
    size += waiting[count]!.size
    if (size > mostEvidence && count > 0) break
  }
  return count
}

/**
 * Makes the recorder of a process. Batches run in the context of this effect, because they hold outcomes of several callers. An
 * outcome that is recorded alone has the context of its caller.
 */
export const makeOutcomeRecorder = (
  outcomes: Outcomes["Service"]
): Effect.Effect<OutcomeRecorder> => Effect.map(Effect.context<never>(), (context) => makeRecorder(outcomes, context))

const makeRecorder = (outcomes: Outcomes["Service"], context: Context.Context<never>): OutcomeRecorder => {
  let waiting: Array<Waiting> = []
  let isRunning = false

  const recordAlone = ({ context, record: { id, outcome, recording, revision }, recorded }: Waiting) =>
    Effect.suspend(() => withinStore(outcomes.record(id, revision, outcome, recording))).pipe(
      Effect.asVoid,
      Effect.provideContext(context),
      Deferred.into(recorded)
    )

  /**
   * An outcome that the batch did not record is recorded alone: that waits for a locked row, and finds the reason of a refusal. So
   * is each outcome of a batch that died, because one of them may break a rule of the database.
   */
  const recordTogether = Effect.fnUntraced(function*(batch: ReadonlyArray<Waiting>) {
    if (batch.length === 1) return yield* recordAlone(batch[0]!)
    const exit = yield* Effect.exit(
      Effect.suspend(() => withinStore(outcomes.recordAll(batch.map(({ record }) => record))))
    )
    if (Exit.isFailure(exit) && !Exit.hasDies(exit)) {
      for (const { recorded } of batch) Deferred.doneUnsafe(recorded, Exit.failCause(exit.cause))
      return
    }
    const isRecorded = (index: number) => Exit.isSuccess(exit) && exit.value[index] === true
    const others = batch.filter((_, index) => !isRecorded(index))
    for (const { recorded } of batch.filter((_, index) => isRecorded(index))) Deferred.doneUnsafe(recorded, Exit.void)
    yield* Effect.forEach(others, recordAlone, { concurrency: "unbounded", discard: true })
  })

  /** Records batch after batch, until no outcome waits. */
  const run = Effect.gen(function*() {
    while (waiting.length > 0) {
      const count = countOfBatch(waiting)
      const batch = waiting.slice(0, count)
      waiting = waiting.slice(count)
      const fiber = yield* Effect.forkDetach(recordTogether(batch), { startImmediately: true })
      yield* Effect.raceFirst(Fiber.await(fiber), Effect.sleep(patience))
    }
    isRunning = false
  })

  return {
    record: (record) =>
      Effect.contextWith((caller: Context.Context<never>) => {
        const recorded = Deferred.makeUnsafe<void, RecordFailure>()
        waiting.push({ record, size: sizeOf(record), recorded, context: caller })
        if (!isRunning) {
          isRunning = true
          // It begins after this turn of the event loop, with all outcomes of the turn.
          Effect.runForkWith(context)(Effect.andThen(Effect.yieldNow, run))
        }
        return Deferred.await(recorded)
      })
  }
}
