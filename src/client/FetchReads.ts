/**
 * Reads that are repeated until the gateway answers, and reads that wait for changes. The rules are those of `ReadRules`.
 */
import { abortable, sleep, within } from "./Abort.ts"
import { ConnectionError, ProblemError } from "./ClientErrors.ts"
import { type Answer, exchange, type Gateway, type ReadRequest } from "./Exchange.ts"
import { attemptLimit, firstPace, nextPace, pauseAfterFailure, pauseOfPoll } from "./ReadRules.ts"

/** Seconds of advice if the read may be repeated; otherwise throws the error. */
const adviceOf = (error: unknown): number | null => {
  if (error instanceof ConnectionError || (error instanceof ProblemError && error.retryable)) return error.retryAfter
  throw error
}

/** Repeats a read after retryable problems and lost connections until there is an answer. */
export const repeatRead = async (
  gateway: Gateway,
  request: ReadRequest,
  wait: number,
  signal: AbortSignal
): Promise<Answer> => {
  const limit = attemptLimit(wait)
  const late = () => new ConnectionError(`GET ${request.path}: no complete answer within ${limit} seconds`)
  for (let failures = 0;; failures++) {
    try {
      return await within(limit, signal, late, (inner) => exchange(gateway, request, inner))
    } catch (error) {
      await sleep(pauseAfterFailure(failures, adviceOf(error), Math.random()), signal)
    }
  }
}

/** What an answer means for the reads after it. */
export interface Step<State, Item> {
  readonly state: State
  /** What to yield. */
  readonly item: Item | null
  /** Whether the answer holds a change. */
  readonly isNew: boolean
  /** Whether the next read begins at once. */
  readonly hasMore: boolean
  readonly isLast: boolean
  /** Seconds between polls if the gateway does not wait. */
  readonly pollAfter: number
}

/** How to read after a state, and what the answer means. */
export interface Waiting<State, Item> {
  readonly first: State
  readonly request: (state: State, prefer: Readonly<Record<string, string>>) => ReadRequest
  readonly step: (state: State, answer: Answer) => Step<State, Item>
}

/** Reads again and again, and yields what is new. */
export const waitingReads = <State, Item>(
  gateway: Gateway,
  wait: number,
  outer: AbortSignal | undefined,
  { first, request, step }: Waiting<State, Item>
): AsyncIterableIterator<Item, void, undefined> =>
  abortable(outer, async function*(signal) {
    const prefer: Readonly<Record<string, string>> = wait > 0 ? { prefer: `wait=${wait}` } : {}
    let pace = firstPace(wait)
    let state = first
    for (;;) {
      if (pace.pause > 0) await sleep(pauseOfPoll(pace.pause, Math.random()), signal)
      const begun = performance.now()
      const answer = await repeatRead(gateway, request(state, prefer), wait, signal)
      const { hasMore, isLast, isNew, item, pollAfter, state: next } = step(state, answer)
      const took = (performance.now() - begun) / 1000
      const applied = /\bwait=\d/.test(answer.headers.get("preference-applied") ?? "")
      pace = nextPace(pace, { isNew, hasMore, applied, took, pollAfter })
      state = next
      if (item !== null) yield item
      if (isLast) return
    }
  })
