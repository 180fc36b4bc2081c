/**
 * The arithmetic of provider limits, which both implementations share (virtual scheduling, as in the generic cell rate
 * algorithm of ITU-T I.371). Times are in microseconds by the clock of the database.
 *
 * Each bucket remembers the instant after the spacing of its last permit. The next permit begins there, less the burst, and not
 * before now. A provider that asked for a pause has no permit before the end of the pause.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import {
  longestRetryAfter,
  type PermitBucket,
  type PermitDemand,
  type Permits,
  type PermitTerms
} from "../../domain/ProviderLimit.ts"

/** The state of a limit: one row for each provider. */
export interface LimitState {
  readonly shared_until: number
  readonly reads_until: number
  readonly closed_until: number
}

/** A provider of which no request is known. */
export const unusedLimit: LimitState = { shared_until: 0, reads_until: 0, closed_until: 0 }

/** How many permits a call reserves, and where its buckets stood before. All instants are relative to now. */
interface PermitShares {
  /** No permit is before this: 0, or the end of a pause. */
  readonly opens: number
  readonly shared: number
  readonly reads: number
  readonly submissions: number
  /** Status reads in the reserved bucket. */
  readonly reads_reserved: number
  /** Status reads in the shared bucket. */
  readonly reads_shared: number
}

/**
 * Where the next permits of a bucket begin, relative to now. No process reserves further ahead than the horizon. So an instant
 * beyond that is one of a clock that was set back since, and counts as the latest possible one.
 */
const startOf = (until: number, { burst, spacing }: PermitBucket, horizon: number, opens: number): number =>
  Math.max(Math.min(until, horizon + burst * spacing), opens)

/**
 * Whether the clock was set back since the last reservation or pause. Then a reservation, also one of no permits, brings the buckets
 * back to the horizon, and the end of the pause to the longest one.
 */
const wasSetBack = (
  state: LimitState,
  { horizon, reads, shared }: PermitTerms,
  now: number,
  longestPause: number
): boolean =>
  state.closed_until - now > longestPause
  || state.shared_until - now > horizon + shared.burst * shared.spacing
  || (reads !== null && state.reads_until - now > horizon + reads.burst * reads.spacing)

/** How many permits of a bucket begin until `latest`. */
const permitsUntil = (latest: number, start: number, { burst, spacing }: PermitBucket, opens: number): number =>
  opens > latest ? 0 : Math.max(0, Math.floor((latest - start) / spacing) + burst)

/** When the n-th permit of a bucket begins, from 0. */
const permitAt = (n: number, start: number, { burst, spacing }: PermitBucket, opens: number): number =>
  Math.max(opens, start + (n - burst + 1) * spacing)

/**
 * Decides how many permits each kind gets. With two buckets, submissions have the shared bucket as far as the horizon. Status reads
 * have their own bucket, and take those permits of the shared bucket that are free at once. With one bucket, the kinds take turns.
 */
export const sharePermits = (
  state: LimitState,
  demand: PermitDemand,
  { horizon, reads: bucket, shared: sharedBucket }: PermitTerms,
  now: number,
  longestPause: number
): PermitShares => {
  const opens = Math.max(0, Math.min(state.closed_until - now, longestPause))
  const shared = startOf(state.shared_until - now, sharedBucket, horizon, opens)
  const inShared = permitsUntil(horizon, shared, sharedBucket, opens)
  if (bucket === null) {
    const count = Math.min(demand.submissions + demand.reads, inShared)
    // Each permit moves the bucket by one spacing, so the odd permit goes to each kind in turn.
    const odd = Math.floor((shared + now) / sharedBucket.spacing) % 2
    const reads_shared = Math.min(demand.reads, Math.max(Math.floor((count + odd) / 2), count - demand.submissions))
    return { opens, shared, reads: 0, submissions: count - reads_shared, reads_reserved: 0, reads_shared }
  }
  const reads = startOf(state.reads_until - now, bucket, horizon, opens)
  const submissions = Math.min(demand.submissions, inShared)
  const reads_reserved = Math.min(demand.reads, permitsUntil(horizon, reads, bucket, opens))
  const idle = permitsUntil(0, shared + submissions * sharedBucket.spacing, sharedBucket, opens)
  return {
    opens,
    shared,
    reads,
    submissions,
    reads_reserved,
    reads_shared: Math.min(demand.reads - reads_reserved, idle)
  }
}

/** The state after these permits. */
export const stateAfter = (
  state: LimitState,
  { opens, reads, reads_reserved, reads_shared, shared, submissions }: PermitShares,
  terms: PermitTerms,
  now: number
): LimitState => ({
  shared_until: now + shared + (submissions + reads_shared) * terms.shared.spacing,
  reads_until: terms.reads === null ? state.reads_until : now + reads + reads_reserved * terms.reads.spacing,
  closed_until: Math.min(state.closed_until, now + opens)
})

const sequence = (count: number, permit: (n: number) => number): ReadonlyArray<number> =>
  Array.from({ length: count }, (_, n) => permit(n))

/**
 * The permits behind these numbers, and when to ask again: when half of the horizon can be reserved, or for a status read as
 * soon as the shared bucket is free.
 */
export const toPermits = (shares: PermitShares, terms: PermitTerms): Permits => {
  const { opens, reads_reserved, reads_shared, submissions } = shares
  const inShared = (n: number) => permitAt(n, shares.shared, terms.shared, opens) / 1000
  const inReserved = (n: number) =>
    terms.reads === null ? Infinity : permitAt(n, shares.reads, terms.reads, opens) / 1000
  const half = terms.horizon / 2000
  const taken = submissions + reads_shared
  const reads = [
    ...sequence(reads_reserved, inReserved),
    ...sequence(reads_shared, (n) => inShared(submissions + n))
  ]
  return {
    submissions: { permits: sequence(submissions, inShared), again: Math.max(1, inShared(taken) - half) },
    reads: {
      permits: reads.toSorted((a, b) => a - b),
      again: Math.max(
        1,
        terms.reads === null ? inShared(taken) - half : Math.min(inReserved(reads_reserved) - half, inShared(taken))
      )
    }
  }
}

/** Microseconds. */
export const longestPause = Duration.toMillis(longestRetryAfter) * 1000

interface LimitRows<E> {
  /** The row of a provider, and the clock, in microseconds. */
  readonly read: (provider: ProviderName) => Effect.Effect<{ readonly state: LimitState; readonly now: number }, E>
  /** Replaces the row if it is still the known one (compare-and-set). Returns whether it did. */
  readonly replace: (provider: ProviderName, known: LimitState, next: LimitState) => Effect.Effect<boolean, E>
}

/** `reservePermits` and `openPermits` of both implementations. A reservation that comes second in a race reads the row again. */
export const makeReservations = <E>({ read, replace }: LimitRows<E>) => {
  const reservePermits = Effect.fn("ProviderLimits.reservePermits")(
    function*(provider: ProviderName, demand: PermitDemand, terms: PermitTerms) {
      while (true) {
        const { now, state } = yield* read(provider)
        const shares = sharePermits(state, demand, terms, now, longestPause)
        const isChanged = shares.submissions + shares.reads_reserved + shares.reads_shared > 0
          || wasSetBack(state, terms, now, longestPause)
        if (!isChanged || (yield* replace(provider, state, stateAfter(state, shares, terms, now)))) {
          return toPermits(shares, terms)
        }
      }
    }
  )

  const openPermits = Effect.fn("ProviderLimits.openPermits")(
    function*(provider: ProviderName, demand: PermitDemand, terms: PermitTerms) {
      const { now, state } = yield* read(provider)
      // No worker would reserve a permit as long as none is open.
      if (wasSetBack(state, terms, now, longestPause)) {
        yield* reservePermits(provider, { submissions: 0, reads: 0 }, terms)
      }
      return toPermits(sharePermits(state, demand, terms, now, longestPause), terms)
    }
  )

  return { reservePermits, openPermits }
}
