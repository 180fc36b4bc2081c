/**
 * The engine of every client of the gateway: it repeats requests until there is an answer, and follows what changes, by the
 * rules of `ReadRules`. A request is a function here, so that the client on `fetch`, the Effect client and the reads of agents share
 * the rules.
 *
 * The room `client`: the engine of all clients, and the client on `fetch`. Read this file first.
 */
import { abortable, sleep, within } from "./Abort.ts"
import { ConnectionError, type Uncertainty } from "./ClientErrors.ts"
import {
  answerTime,
  firstPace,
  nextPace,
  type Pace,
  pauseAfter,
  pauseOfPoll,
  pollFeedAfter,
  pollOperationAfter,
  restOfWait
} from "./ReadRules.ts"

/** Time and chance. */
export interface Platform {
  /** Monotonic time, in seconds. */
  readonly now: () => number
  /** Resolves after the seconds, or rejects with the reason of the signal. */
  readonly sleep: (seconds: number, signal: AbortSignal) => Promise<void>
  /** From 0 to 1. */
  readonly random: () => number
}

const ownPlatform: Platform = { now: () => performance.now() / 1000, sleep, random: () => Math.random() }

/** The header that asks the gateway to wait for a change (RFC 7240 §4.3), or none. */
export interface Prefer {
  readonly prefer?: string
}

const preferWait = (seconds: number): Prefer => seconds > 0 ? { prefer: `wait=${seconds}` } : {}

/**
 * Sends a request once, with the header. A failure with `retryable: true` may be repeated, after the seconds of its `retryAfter`.
 */
type Attempt<A> = (prefer: Prefer, signal: AbortSignal) => Promise<A>

/** How long a request may take. All times are in seconds. */
export interface Limits {
  /** How long the gateway may wait for a change; 0 by default. */
  readonly wait?: number
  /** How long an answer may take beyond the wait; 30 by default. An attempt that takes longer counts as a lost connection. */
  readonly answerTime?: number
  /** When the last attempt begins at the latest, after the first one. Without it the request is repeated until there is an answer. */
  readonly within?: number
  /** Called before each repetition. */
  readonly onRetry?: ((retry: Retry) => void) | undefined
  /** For a request that records work. */
  readonly uncertainty?: Uncertainty
}

/** A failure after which a request is repeated. Times are in seconds. */
export interface Retry {
  readonly error: unknown
  /** Failures in succession, with this one. */
  readonly failures: number
  /** Since the first attempt began. */
  readonly elapsed: number
  /** Until the next attempt. */
  readonly pause: number
}

/** Repeats a request after retryable problems and lost connections. It ends with the reason of the signal. */
export const repeat = async <A>(
  attempt: Attempt<A>,
  limits: Limits,
  signal: AbortSignal,
  platform: Platform = ownPlatform
): Promise<A> => {
  const { wait = 0, within: end = Infinity } = limits
  const begun = platform.now()
  const passed = () => platform.now() - begun
  let isUncertain = false
  for (let failures = 0;; failures++) {
    const rest = restOfWait(wait, passed())
    const limit = rest + (limits.answerTime ?? answerTime)
    const late = () => new ConnectionError(`no complete answer within ${limit} seconds`)
    try {
      return await within(limit, signal, platform.sleep, late, (inner) => attempt(preferWait(rest), inner))
    } catch (error) {
      isUncertain ||= limits.uncertainty?.isRefusal(error) === false
      const pause = pauseAfter(error, failures, end - passed(), platform.random())
      if (pause === null) throw isUncertain ? limits.uncertainty!.mark(error) : error
      limits.onRetry?.({ error, failures: failures + 1, elapsed: passed(), pause })
      await platform.sleep(pause, signal)
    }
  }
}

/** What an answer means for the reads after it. */
interface Step<State, Item> {
  readonly state: State
  /** What to yield. */
  readonly item: Item | null
  /** Whether the answer holds a change. */
  readonly isNew: boolean
  /** Whether the next read begins at once. */
  readonly hasMore: boolean
  readonly isLast: boolean
  /** `Preference-Applied` of the answer. */
  readonly applied: string | null | undefined
  /** Seconds between polls if the gateway does not wait. */
  readonly pollAfter: number
}

/** How to follow. */
export interface Following {
  /** Seconds that a read may wait for a change; the client polls if it is 0. */
  readonly wait: number
  /** For each read: see `Limits`. */
  readonly within?: number | undefined
  readonly onRetry?: Limits["onRetry"]
  readonly signal?: AbortSignal | undefined
  readonly platform?: Platform
}

const readAgain = <State, Item>(
  { onRetry, platform = ownPlatform, signal: outer, wait, within: end = Infinity }: Following,
  first: State,
  waitAfter: (state: State) => number,
  read: (state: State, ...attempt: Parameters<Attempt<unknown>>) => Promise<Step<State, Item>>
): AsyncIterableIterator<Item, void, undefined> =>
  abortable(outer, async function*(signal) {
    let pace: Pace = firstPace(wait)
    for (let state = first;;) {
      if (pace.pause > 0) await platform.sleep(pauseOfPoll(pace.pause, platform.random()), signal)
      const begun = platform.now()
      const step = await repeat(
        (prefer, inner) => read(state, prefer, inner),
        { wait: waitAfter(state), within: end, onRetry },
        signal,
        platform
      )
      const applied = /\bwait=\d/.test(step.applied ?? "")
      pace = nextPace(pace, { ...step, applied, took: platform.now() - begun })
      state = step.state
      if (step.item !== null) yield step.item
      if (step.isLast) return
    }
  })

/** An operation, and its entity tag. */
export interface Known<Operation> {
  readonly operation: Operation
  readonly etag: string
}

/** The answer to a read of an operation. */
export interface OperationAnswer<Operation> {
  /** Undefined after a 304. */
  readonly operation: Operation | undefined
  readonly etag: string
  /** `Preference-Applied`. */
  readonly applied: string | null | undefined
  /** Seconds of `Retry-After`. */
  readonly retryAfter: number | null | undefined
}

/** Follows an operation until it is final. The first read does not wait, because the caller knows nothing yet. */
export const follow = <Operation extends { readonly terminal: boolean }>(
  following: Following,
  read: (known: Known<Operation> | null, prefer: Prefer, signal: AbortSignal) => Promise<OperationAnswer<Operation>>
): AsyncIterableIterator<Operation, void, undefined> =>
  readAgain(
    following,
    null as Known<Operation> | null,
    (known) => known === null ? 0 : following.wait,
    async (known, ...attempt) => {
      const { applied, etag, operation: found, retryAfter } = await read(known, ...attempt)
      // The gateway answers 304 only to a tag.
      const operation = found ?? known!.operation
      const isNew = etag !== known?.etag
      return {
        state: { operation, etag },
        item: isNew ? operation : null,
        isNew,
        hasMore: false,
        isLast: operation.terminal,
        applied,
        pollAfter: retryAfter ?? pollOperationAfter
      }
    }
  )

interface Page {
  readonly operations: ReadonlyArray<unknown>
  readonly next_change_token: string
  readonly has_more: boolean
}

/** Reads the change feed without end, after a token. */
export const followChanges = <P extends Page>(
  following: Following,
  after: string | null,
  read: (token: string | null, prefer: Prefer, signal: AbortSignal) => Promise<
    { readonly page: P; readonly applied: string | null | undefined }
  >
): AsyncIterableIterator<P, void, undefined> =>
  readAgain(following, after, () => following.wait, async (token, ...attempt) => {
    const { applied, page } = await read(token, ...attempt)
    const isNew = page.operations.length > 0
    return {
      state: page.next_change_token as string | null,
      item: isNew || page.next_change_token !== token ? page : null,
      isNew,
      hasMore: page.has_more,
      isLast: false,
      applied,
      pollAfter: pollFeedAfter
    }
  })
