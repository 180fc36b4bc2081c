/**
 * What an agent is told: one table of sentences for states and refusals.
 */
import type * as DateTime from "effect/DateTime"
import { type Operation, pollAfterSeconds } from "../domain/Operation.ts"

/** The advice on an operation. */
export interface Advice {
  readonly advice: string
  /** Null if the state is final. */
  readonly read_again_in_seconds: number | null
}

/** The advice on an operation as it is now. */
export const adviceOn = (operation: Operation, now: DateTime.Utc): Advice => ({
  advice: operation.state,
  read_again_in_seconds: pollAfterSeconds(operation, now)
})

export const adviceOnRefusal = (code: string): string => code
export const adviceOnUnknownKey: string = "unknown"
