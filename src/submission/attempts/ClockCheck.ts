/** Compares the clock of this process with the clock of the database, and tells operators if they differ. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import {
  type ClockSkew,
  compareClocks,
  describeSkew,
  longestSkew,
  warnedSkew,
  whySkewed
} from "../../domain/ClockSkew.ts"
import type { Claim } from "../../domain/Submission.ts"
import { SubmissionMetrics } from "../../metrics/SubmissionMetrics.ts"
import { Claims } from "../../services/queue/Claims.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { withinStore } from "../storeStatements.ts"

type Finding = "agree" | "differ" | "wrong"

/** What a comparison finds. Null: it proves neither that the clocks differ nor that they agree. */
const findingOf = ({ most, proven }: ClockSkew): Finding | null => {
  if (Math.abs(proven) > longestSkew) return "wrong"
  if (Math.abs(proven) > warnedSkew) return "differ"
  return most <= warnedSkew ? "agree" : null
}

const logFinding = (finding: Finding, { proven }: ClockSkew) => {
  if (finding === "agree") return Effect.logInfo("The clocks of this worker and of the database agree again")
  const consequence = finding === "wrong" ? ", so it sends nothing" : ". Above 5 s it sends nothing"
  const message = `The clock of this worker differs from the clock of the database${consequence}: correct the wrong one`
  return Effect.annotateLogs(Effect.logWarning(message), { clock: describeSkew(proven) })
}

export class ClockCheck extends Context.Service<ClockCheck, {
  /**
   * Compares with the times of these claims, which the worker asked for at `askedAt`, and has just received. Yields why none of them
   * may be sent, or null. After a slow statement it asks the database once more.
   */
  readonly ofClaims: (askedAt: number, claims: ReadonlyArray<Claim>) => Effect.Effect<string | null>
  /**
   * Asks the database for its time. Yields by how many milliseconds this process is proven to be ahead. Null: no comparison
   * was clear yet.
   */
  readonly measure: Effect.Effect<number | null, StoreUnavailable>
}>()("financial-agents-gateway/submission/attempts/ClockCheck") {
  /** The parts of a process share the layer, so each finding is logged once. */
  static readonly layer: Layer.Layer<ClockCheck, never, Claims> = Layer.effect(
    ClockCheck,
    Effect.suspend(() => Effect.map(make, (check) => ClockCheck.of(check)))
  )
}

const make = Effect.gen(function*() {
  const { readClock } = yield* Claims
  const metrics = yield* SubmissionMetrics
  let found: Finding = "agree"
  let known: number | null = null

  const note = (skew: ClockSkew): Effect.Effect<void> =>
    Effect.suspend(() => {
      const finding = findingOf(skew)
      if (finding === null) return Effect.void
      known = skew.proven
      if (metrics !== null) metrics.clockSkew = skew.proven / 1000
      if (finding === found) return Effect.void
      found = finding
      return logFinding(finding, skew)
    })

  const ask = Effect.gen(function*() {
    const before = yield* Clock.currentTimeMillis
    const { epochMilliseconds: shown } = yield* withinStore(readClock)
    const skew = compareClocks(before, shown, shown, yield* Clock.currentTimeMillis)
    yield* note(skew)
    return skew
  })

  return {
    measure: Effect.map(ask, () => known),
    ofClaims: Effect.fnUntraced(function*(askedAt: number, claims: ReadonlyArray<Claim>) {
      if (claims.length === 0) return null
      const [first, last] = [claims[0]!, claims.at(-1)!].map(({ claimed_at }) => DateTime.toEpochMillis(claimed_at))
      const skew = compareClocks(askedAt, first!, last!, yield* Clock.currentTimeMillis)
      yield* note(skew)
      const isSlow = skew.most > longestSkew && Math.abs(skew.proven) <= longestSkew
      return whySkewed(isSlow ? yield* Effect.orElseSucceed(ask, () => skew) : skew)
    })
  }
})
