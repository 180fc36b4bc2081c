/** Progress of long work: a line on standard error every ten seconds. */
import { Effect } from "effect"

/** Work that shows its progress. */
export interface Progress {
  /** Sets how many are done, and the present step. */
  readonly update: (done: number, step: string) => void
  /** Adds to what is done, 1 by default. */
  readonly advance: (count?: number) => void
}

/** Shows the progress of an effect until it ends. `unit` is what is counted, such as `lines`. */
export const withProgress = <A, E, R>(
  { label, total, unit }: { readonly label: string; readonly unit: string; readonly total: number },
  use: (progress: Progress) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    const now = { done: 0, step: "" }
    const show = Effect.sync(() => {
      const share = Math.floor(100 * now.done / total)
      process.stderr.write(`${label}  ${share} %  ${now.done} of ${total} ${unit}  ${now.step}`.trimEnd() + "\n")
    })
    const progress: Progress = {
      update: (done, step) => void Object.assign(now, { done, step }),
      advance: (count = 1) => void (now.done += count)
    }
    return Effect.raceFirst(use(progress), Effect.forever(Effect.delay(show, "10 seconds")))
  })
