/**
 * The rules of all clients: what they accept, how long they wait, when they ask again, and after which failures. This module
 * imports nothing. All times are in seconds.
 */

/** The wait that a client asks for by default. Many load balancers cut connections that are idle for 60 seconds. */
export const defaultWait = 50

/** The longest wait that the gateway grants. */
const maxWait = 60

/** A read without an answer is given up when the wait and this time have passed, so that a dead connection does not hold the client. */
export const answerTime = 30

/** The time in which the last attempt of a submission begins. */
export const submitWithin = 60

/** The time for which a request fails until the client warns of it. */
export const warnAfter = 5

/** The pause between reads of an operation if the gateway names none. */
export const pollOperationAfter = 1

/** The pause between reads of the change feed if the gateway does not wait. */
export const pollFeedAfter = 5

/** The limits of the random pause after a failure: it doubles from the first to the second. */
const firstBackoff = 1
const longestBackoff = 30

/** An answer that comes earlier than this shows that the gateway did not wait. */
const shortestWait = 1

/** Fails unless the wait is a whole number from 0 to 60. 0 means that the client polls. */
export const checkWait = (seconds: number): number => {
  if (!Number.isInteger(seconds) || seconds < 0 || seconds > maxWait) {
    throw new RangeError(`wait must be a whole number of seconds from 0 to ${maxWait}`)
  }
  return seconds
}

/** Fails unless the base URL begins with `http://` or `https://`. Of `localhost:3000`, each read would fail and be repeated. */
export const checkBaseUrl = (baseUrl: string): string => {
  if (!/^https?:\/\//i.test(baseUrl) || !URL.canParse(baseUrl)) {
    throw new TypeError("baseUrl must be a URL such as https://gateway.example")
  }
  return baseUrl
}

/** Fails unless a header can carry the access token. Platforms quote another one in their errors, and it never arrives. */
export const checkAccessToken = (token: string): string => {
  if (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token)) {
    throw new TypeError("the access token is empty, or has characters that no header can carry")
  }
  return token
}

/** The seconds of `Retry-After` (RFC 9110 §10.2.3) in the form that the gateway sends; null for any other value. */
export const retryAfterSeconds = (header: string | null | undefined): number | null =>
  /^(?:0|[1-9][0-9]{0,5})$/.test(header ?? "") ? Number(header) : null

/**
 * Whether an answer that is no problem of the gateway counts as none: proxies between the client and the gateway answer with
 * these statuses while the gateway is away.
 */
export const isProxyFailure = (status: number): boolean => [408, 429, 502, 503, 504].includes(status)

/** What a failed submission says if one of its attempts may be recorded: that attempt had no answer, or one with a 5xx. */
export const uncertainRecord = "Whether the request was recorded is unknown: repeat it with the same key alone"

/** Whether a failure says that the identical request may succeed later. */
export const isRetryable = (
  error: unknown
): error is { readonly retryable: true; readonly retryAfter?: number | null } =>
  typeof error === "object" && error !== null && "retryable" in error && error.retryable === true

/**
 * The pause before a failed request is repeated; null if it is not. It is never less than `Retry-After`, and has a random part up to a
 * limit that doubles with each failure ("full jitter"), so that clients of a restarted gateway do not return at once.
 *
 * @param failures Failures in succession before this one.
 * @param left The time in which the last attempt must begin. That attempt uses it up, so that a restart of the gateway which takes
 *   no longer goes unnoticed.
 * @param random From 0 to 1.
 */
export const pauseAfter = (error: unknown, failures: number, left: number, random: number): number | null => {
  if (!isRetryable(error) || left <= 0) return null
  const advised = error.retryAfter ?? 0
  if (advised > left) return null
  return Math.min(left, advised + random * Math.min(longestBackoff, firstBackoff * 2 ** failures))
}

/**
 * The part of the wait that an attempt asks for. A proxy may cut each connection before the wait is over, and later attempts still
 * come to an answer. At least a second remains, so that the answer shows whether the gateway waits.
 */
export const restOfWait = (wait: number, passed: number): number =>
  Math.min(wait, Math.max(1, Math.ceil(wait - passed)))

/** How the next read begins. */
export interface Pace {
  /** Whether the gateway waits for changes, as far as the client knows. */
  readonly waits: boolean
  /** The least pause before the next read. */
  readonly pause: number
}

/** What a read shows about the gateway. */
interface ReadResult {
  /** Whether the answer holds something that the client did not know. */
  readonly isNew: boolean
  /** Whether the next read finds more at once. */
  readonly hasMore: boolean
  /** Whether the answer names the wait in `Preference-Applied`. */
  readonly applied: boolean
  /** How long the answer took. */
  readonly took: number
  /** The pause if the gateway does not wait. */
  readonly pollAfter: number
}

/** How the first read begins. */
export const firstPace = (wait: number): Pace => ({ waits: wait > 0, pause: 0 })

/**
 * How the next read begins. A gateway waits if it says so. It does not if it answers without news, either at once or without
 * saying so. Then the client polls, and asks for the wait again in each read.
 */
export const nextPace = (pace: Pace, { applied, hasMore, isNew, pollAfter, took }: ReadResult): Pace => {
  if (hasMore) return { ...pace, pause: 0 }
  const waits = isNew ? pace.waits || applied : applied && took >= shortestWait
  // A proxy may answer with `Retry-After: 0`. Without a pause the client would read as fast as the network allows.
  return { waits, pause: waits ? 0 : Math.max(shortestWait, pollAfter) }
}

/** A pause between polls: at least the given one, and up to a quarter longer, so that clients spread. */
export const pauseOfPoll = (pause: number, random: number): number => pause * (1 + random / 4)
