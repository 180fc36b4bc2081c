/**
 * A wait for several operations, made of one wait for each.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Operation } from "../domain/Operation.ts"
import { type AgentReads, differs, type ReadRefused } from "./AgentReads.ts"

/** Returns the operation once it differs from `known`, or as it is after `seconds`, or earlier if it may not wait. */
export type WaitForOne = (known: Operation, seconds: number) => Effect.Effect<Operation, ReadRefused>

/** Ends the other waits. */
class Changed extends Schema.TaggedError<Changed>()("Changed", { operation: Schema.toType(Operation) }) {}

/**
 * Makes `nextAmong` of `AgentReads`, for reads that do not share a request. It needs one waiting read for each operation. The first
 * change interrupts the others: what they miss differs from the known form at the next call, too.
 */
export const nextAmongOf = (next: WaitForOne): AgentReads["Service"]["nextAmong"] => (known, seconds) =>
  Effect.forEach(
    known,
    (operation) =>
      Effect.flatMap(next(operation, seconds), (current) =>
        differs(operation, current) ? Effect.fail(new Changed({ operation: current })) : Effect.void),
    {
      concurrency: "unbounded",
      discard: true
    }
  ).pipe(
    Effect.as<ReadonlyArray<Operation>>([]),
    Effect.catchTag("Changed", ({ operation }) =>
      Effect.succeed([operation]))
  )
