import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import type { Claim, ClaimTerms } from "../../domain/Submission.ts"
import { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { type ClockReading, elapsed, readClocks } from "../elapsed.ts"
import type { ProviderPause } from "../providers/ProviderPauses.ts"
import { sentAs } from "../providers/ProviderPromises.ts"
import { logFailure } from "../submissionLog.ts"
import type { WorkerServices } from "../SubmissionServices.ts"

/** A claim of this worker, and when the worker asked the database for it. */
export interface TimedClaim {
  readonly provider: ProviderName
  readonly claim: Claim
  readonly askedAt: ClockReading
  /** The pause that this operation probes. Null if the provider was not paused. */
  readonly probeOf: ProviderPause | null
  /** Why the worker may not send: its clock is wrong, or the claim was not recorded. Null: it may. */
  readonly refusal: string | null
}

/** Milliseconds between two searches for returned claims, while there are none. */
const searchInterval = 1000

/**
 * Claims up to `limit` operations of a provider, in this order:
 *
 * 1. returned claims that are due, up to half of the limit;
 * 2. accepted operations;
 * 3. more returned claims, if capacity is left.
 *
 * Capacity for one operation alternates between returned claims and accepted operations. So returned claims that fail again and again never
 * stop the others. While the provider is paused, it claims one operation as a probe, or none.
 *
 * If the database does not acknowledge a claim, the result lacks its operations. A claim has a `refusal` if the `ClaimRecorder` did not
 * record it, or if the clock of this process is not proven to be right. A wrong clock also pauses the provider.
 */
export const claimOperations = (services: WorkerServices) => {
  const { claims, metrics, pauses, policy, providers, recorder } = services
  const terms = (provider: ProviderName): ClaimTerms => ({
    send_within: policy.sendWithin,
    rescue_after: policy.rescueAfter,
    idle: policy.idle,
    review_after: policy.reviewAfter.accepted,
    worker: policy.workerId,
    provider_account: providers.get(provider)?.account,
    sent_as: sentAs(providers.get(provider) ?? {}),
    ...recorder.terms()
  })
  const claim = (limit: number, provider: ProviderName, patience: Duration.Duration) =>
    claimWithin(services, claims.claim(provider, limit, terms(provider)), patience)
  const emptySince = new Map<ProviderName, ClockReading>()

  const isRoundedUp = new Map<ProviderName, boolean>()

  /** Half of the limit. An odd number is rounded up and down alternately. */
  const shareOfReturned = (provider: ProviderName, limit: number): number => {
    if (limit % 2 === 0) return limit / 2
    const roundsUp = !(isRoundedUp.get(provider) ?? false)
    isRoundedUp.set(provider, roundsUp)
    return roundsUp ? Math.ceil(limit / 2) : Math.floor(limit / 2)
  }

  /** Searches at most once a second while it finds none, so that it costs busy workers nothing. */
  const takeOver = Effect.fnUntraced(function*(provider: ProviderName, limit: number) {
    const since = emptySince.get(provider)
    if (since !== undefined && (yield* elapsed(since)) < searchInterval) return []
    const found = yield* claimWithin(
      services,
      claims.claimReturned(provider, limit, terms(provider)),
      policy.rescueAfter
    )
    if (found.length > 0) emptySince.delete(provider)
    else emptySince.set(provider, yield* readClocks)
    return found
  })

  return Effect.fn("SubmissionWorker.claim")(function*(provider: ProviderName, asked: number) {
    const { limit, probeOf } = yield* pauses.admit(provider, asked)
    if (limit <= 0) return []
    if (!(yield* recorder.admits)) {
      yield* pauses.release(probeOf)
      return []
    }
    const share = shareOfReturned(provider, limit)
    const first = share > 0 ? yield* takeOver(provider, share) : []
    // A claim that hangs must not keep those at hand until they are stale, too: after `sendWithin` they are returned.
    const fresh = first.length < limit && !areRefused(first)
      ? yield* claim(limit - first.length, provider, first.length > 0 ? policy.sendWithin : policy.rescueAfter)
      : []
    const left = limit - first.length - fresh.length
    const more = left > 0 && first.length === share && !areRefused([...first, ...fresh])
      ? yield* takeOver(provider, left)
      : []
    const claimed = [...first, ...fresh, ...more]
    const refused = yield* recorder.record(claimed.map(({ claim }) => claim))
    const timedClaims = claimed.map((timed): TimedClaim => ({
      ...timed,
      provider,
      probeOf,
      refusal: timed.refusal ?? refused.get(timed.claim.batch) ?? null
    }))
    const skewed = claimed.find(({ refusal }) => refusal !== null)
    if (skewed !== undefined) yield* pauses.fail(provider, probeOf, skewed.refusal!)
    if (metrics !== null) metrics.of(provider).claims.value += timedClaims.length
    if (timedClaims.length === 0) yield* pauses.release(probeOf)
    return timedClaims
  })
}

const areRefused = (claims: ReadonlyArray<Pick<TimedClaim, "refusal">>) =>
  claims.some(({ refusal }) => refusal !== null)

/**
 * Claims with a statement, and waits for its answer for `patience`. If the worker abandons a claim, its rows stay `submitting`
 * until they are stale. A worker that is asked to stop waits for `storeTimeout` only. The times of the claims show whether the clock
 * of this process is right.
 */
const claimWithin = Effect.fnUntraced(function*(
  { clockCheck, drain, policy }: WorkerServices,
  statement: Effect.Effect<ReadonlyArray<Claim>, StoreUnavailable>,
  patience: Duration.Duration
) {
  const askedAt = yield* readClocks
  const tooLong = Effect.raceFirst(
    Effect.sleep(patience),
    Effect.andThen(drain.begun, Effect.sleep(policy.storeTimeout))
  ).pipe(
    Effect.andThen(Effect.suspend(() => Effect.fail(new StoreUnavailable({ cause: new Error("no answer in time") }))))
  )
  const claims = yield* Effect.raceFirst(Effect.interruptible(statement), tooLong).pipe(
    // After any failure, the next poll tries again.
    Effect.catchCause((cause) =>
      Effect.as(
        logFailure("Could not claim operations; none of them is sent, and the next poll claims again", cause),
        []
      )
    )
  )
  const refusal = yield* clockCheck.ofClaims(askedAt.wall, claims)
  return claims.map((claim) => ({ claim, askedAt, refusal }))
})
