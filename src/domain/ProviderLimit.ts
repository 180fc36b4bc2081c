/**
 * The rate limit of a provider, without effects: how many requests it takes in an interval, and what follows for their permits.
 *
 * A request takes a permit. The permits are in two buckets, each with its own spacing: the reserved bucket is for status reads, and
 * the shared bucket for submissions. A status read may also take a permit of the shared bucket that is free at once. The buckets
 * together admit at most `requests` in any interval.
 */
import * as Duration from "effect/Duration"

/** How many requests a provider takes: submissions and status reads of all workers together. */
export interface ProviderLimit {
  /** Most requests that arrive in any interval, bursts included. */
  readonly requests: number
  /** From 10 ms to one day. */
  readonly interval: Duration.Input
  /**
   * Most requests at once, after a pause. It is at least 2 with a reserved share, because each kind has its own part, and at
   * most `requests`. A larger burst lowers the average rate. Default: a twentieth of `requests`.
   */
  readonly burst?: number
  /**
   * Share of the requests that only status reads may use: from 0 to less than 1. Default: 0.2. It is at least one request, and
   * leaves at least one to submissions. If it is 0, or if `requests` is 1, submissions and status reads take turns.
   */
  readonly reservedForReads?: number
  /**
   * How much later than its permit a request may arrive. It covers the answer of the database, this process and the network. A
   * longer slack lowers the average rate. Default: a tenth of the interval, at most one second.
   */
  readonly slack?: Duration.Input
}

/** A sequence of permits. */
export interface PermitBucket {
  /** Microseconds between two permits. */
  readonly spacing: number
  /** Most permits at once, after a pause. */
  readonly burst: number
}

/** The buckets of a limit. Durations are in microseconds. */
export interface PermitTerms {
  /** Submissions. Status reads, too, if there is no bucket for them. */
  readonly shared: PermitBucket
  /** Status reads alone. Null: status reads take turns with submissions. */
  readonly reads: PermitBucket | null
  readonly slack: number
  /** How far ahead a permit is reserved. The rest asks again, so that no process books the limit for long. */
  readonly horizon: number
}

/** The longest pause that a provider can ask for by `Retry-After`. A longer one counts as this. */
export const longestRetryAfter = Duration.minutes(5)

const millisOf = (name: string, input: Duration.Input, from: number, to: number): number => {
  const duration = Duration.fromInput(input)
  const millis = duration._tag === "None" ? NaN : Duration.toMillis(duration.value)
  if (millis >= from && millis <= to) return millis
  throw new TypeError(
    `limit.${name} must be a duration from ${Duration.format(Duration.millis(from))} to ${
      Duration.format(Duration.millis(to))
    }`
  )
}

const requireCount = (name: string, count: number, from: number, to: number, why = ""): number => {
  if (Number.isInteger(count) && count >= from && count <= to) return count
  throw new TypeError(`limit.${name} must be a whole number from ${from} to ${to}${why}`)
}

/**
 * In a window of W, a bucket with the burst B and the spacing T begins at most B + ⌈W / T⌉ − 1 requests. W is the interval and
 * the slack, because a request arrives up to the slack after its permit. The spacing is longer than W / (requests − B + 1), so
 * that two requests an interval apart count as well.
 */
const bucketOf = (window: number, requests: number, burst: number): PermitBucket => ({
  spacing: Math.floor(window / (requests - burst + 1)) + 1,
  burst
})

const clamp = (value: number, least: number, most: number): number => Math.min(Math.max(value, least), most)

/** The buckets of a limit. Throws a `TypeError` if the limit is invalid. `horizon` is in milliseconds. */
export const permitTerms = (limit: ProviderLimit, horizon: number): PermitTerms => {
  const requests = requireCount("requests", limit.requests, 1, 1_000_000)
  const interval = millisOf("interval", limit.interval, 10, 86_400_000)
  const slack = limit.slack === undefined
    ? Math.min(interval / 10, 1000)
    : millisOf("slack", limit.slack, 1, interval)
  const share = limit.reservedForReads ?? 0.2
  if (!(share >= 0 && share < 1)) throw new TypeError("limit.reservedForReads must be from 0 to less than 1")
  const isSplit = share > 0 && requests > 1
  const least = isSplit ? 2 : 1
  const burst = limit.burst === undefined
    ? clamp(Math.floor(requests / 20), least, requests)
    : requireCount(
      "burst",
      limit.burst,
      least,
      requests,
      isSplit ? ": one for submissions and one for status reads, unless reservedForReads is 0" : ""
    )
  const window = Math.ceil((interval + slack) * 1000)
  const lengths = { slack: Math.floor(slack * 1000), horizon: Math.round(horizon * 1000) }
  if (!isSplit) return { shared: bucketOf(window, requests, burst), reads: null, ...lengths }
  const forReads = clamp(Math.round(requests * share), 1, requests - 1)
  const rest = requests - forReads
  const burstOfReads = clamp(Math.round(burst * share), Math.max(1, burst - rest), Math.min(forReads, burst - 1))
  return {
    shared: bucketOf(window, rest, burst - burstOfReads),
    reads: bucketOf(window, forReads, burstOfReads),
    ...lengths
  }
}

/** The kinds of requests to a provider. */
export type RequestKind = "submissions" | "reads"

/** How many requests of each kind wait for permits. */
export type PermitDemand = Readonly<Record<RequestKind, number>>

/** Permits of one kind that a statement reserved or found. Milliseconds are counted from the statement. */
export interface PermitsOfKind {
  /** When each permit begins, in milliseconds and in ascending order. */
  readonly permits: ReadonlyArray<number>
  /** Milliseconds until it is worth while to ask for further permits of this kind. */
  readonly again: number
}

export type Permits = Readonly<Record<RequestKind, PermitsOfKind>>
