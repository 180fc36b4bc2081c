/**
 * When this process may begin a request to a provider. The request waits for a permit of the provider's limit, which all workers share by
 * the database. It also waits for the end of a pause that the provider asked for. A provider without a limit costs no statement.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { ProviderName } from "../../domain/Grant.ts"
import {
  longestRetryAfter,
  type Permits,
  type PermitTerms,
  permitTerms,
  type ProviderLimit,
  type RequestKind
} from "../../domain/ProviderLimit.ts"
import { memoize } from "../../metrics/Series.ts"
import { SubmissionMetrics } from "../../metrics/SubmissionMetrics.ts"
import { ProviderLimits } from "../../services/queue/ProviderLimits.ts"
import { type ClockReading, elapsed, readClocks } from "../elapsed.ts"
import { gatherCalls, type WaitingCall } from "../gatherCalls.ts"
import { withinStore } from "../storeStatements.ts"
import { logFailure } from "../submissionLog.ts"
import { SubmissionPolicy } from "../SubmissionPolicy.ts"
import { Providers } from "./Providers.ts"

/** Milliseconds: no permit is reserved further ahead. */
const longestHorizon = 250

/** Milliseconds: the shortest time between two questions to the database for the same permits. */
const shortestWait = 10

type PermitAnswer =
  | { readonly _tag: "Begin" }
  /** There is no permit within this time, in milliseconds. */
  | { readonly _tag: "Wait"; readonly millis: number }
  /** The database did not answer, so nothing may be sent. */
  | { readonly _tag: "Unavailable" }

/** How many requests a poller may begin now, and how many milliseconds later it may begin more. */
export interface OpenPermits {
  readonly count: number
  readonly again: number
}

interface ReservedPermit {
  readonly _tag: "Permit"
  /** Milliseconds: not before this time after `answeredAt`, nor later than it and the slack after `askedAt`. */
  readonly millis: number
  readonly askedAt: ClockReading
  readonly answeredAt: ClockReading
}

/** A request that waits for the next reservation. */
type Asker = WaitingCall<RequestKind, ReservedPermit | PermitAnswer, never>

interface ProviderState {
  /** The limit, and the question for a permit of it. Null: there is no limit. */
  readonly limit: {
    readonly terms: PermitTerms
    readonly ask: (kind: RequestKind) => Effect.Effect<ReservedPermit | PermitAnswer>
  } | null
  /** The pause that the provider asked for, in milliseconds since a reading. */
  pause: { readonly since: ClockReading; readonly millis: number } | null
  /** Requests that wait, and have no permit yet. The permits that are open first are theirs. */
  readonly waiting: Record<RequestKind, number>
}

const begin: PermitAnswer = { _tag: "Begin" }
const unavailable: PermitAnswer = { _tag: "Unavailable" }
const wait = (millis: number): PermitAnswer => ({ _tag: "Wait", millis: Math.max(millis, shortestWait) })

export class RequestPermits extends Context.Service<RequestPermits, {
  /** Whether requests of the provider may have to wait. If not, each of them begins at once. */
  readonly mayWait: (provider: ProviderName) => boolean
  /** Milliseconds for which a request may wait for its permit once it is reserved; 0 if the provider has no limit. */
  readonly horizon: (provider: ProviderName) => number
  /** Milliseconds until the end of the pause that the provider asked for; 0 if there is none. */
  readonly pauseOf: (provider: ProviderName) => Effect.Effect<number>
  /**
   * Waits for a permit, if one is near. A request that may begin must do so at once: half of the slack is for that, and half for
   * its way to the provider. Without a limit and without a pause, every request may begin.
   */
  readonly takePermit: (provider: ProviderName, kind: RequestKind) => Effect.Effect<PermitAnswer>
  /** Pauses before the next `takePermit` of a request that had to wait, for so many milliseconds. */
  readonly rest: (provider: ProviderName, kind: RequestKind, millis: number) => Effect.Effect<void>
  /** How many of up to `limit` further requests may begin soon. Reserves nothing. */
  readonly open: (provider: ProviderName, kind: RequestKind, limit: number) => Effect.Effect<OpenPermits>
  /**
   * Pauses the provider, because it asked for that by `Retry-After`. With a limit, the pause holds for all processes. A value
   * that is no duration changes nothing.
   */
  readonly slowDown: (provider: ProviderName, retryAfter: unknown) => Effect.Effect<void>
}>()("financial-agents-gateway/submission/providers/RequestPermits") {
  static readonly layer: Layer.Layer<RequestPermits, never, ProviderLimits | Providers> = Layer.effect(
    RequestPermits,
    Effect.suspend(() => make)
  )
}

type Limits = ProviderLimits["Service"]

/** Milliseconds since a reading, by the monotonic clock alone: a wall clock that is set forward makes no permit early. */
const monotonicElapsed = (since: ClockReading): Effect.Effect<number> =>
  Effect.map(Clock.monotonicTimeNanos, (now) => Number(now - since.monotonic) / 1_000_000)

/** Gives the permits of an answer to the requests that wait, in their order. */
const assign = (
  askers: ReadonlyArray<Asker>,
  permits: Permits | null,
  askedAt: ClockReading,
  answeredAt: ClockReading
) => {
  const next = { submissions: 0, reads: 0 }
  for (const { answer, call: kind } of askers) {
    const millis = permits?.[kind].permits[next[kind]++]
    const permit = permits === null
      ? unavailable
      : millis === undefined
      ? wait(permits[kind].again)
      : { _tag: "Permit" as const, millis, askedAt, answeredAt }
    Deferred.doneUnsafe(answer, Effect.succeed(permit))
  }
}

const reserve = Effect.fnUntraced(
  function*(limits: Limits, provider: ProviderName, terms: PermitTerms, askers: ReadonlyArray<Asker>) {
    const count = (kind: RequestKind) => askers.filter(({ call }) => call === kind).length
    const demand = { submissions: count("submissions"), reads: count("reads") }
    const askedAt = yield* readClocks
    const permits = yield* Effect.suspend(() => withinStore(limits.reservePermits(provider, demand, terms))).pipe(
      Effect.catchCause((cause) =>
        Effect.as(
          logFailure("Could not reserve permits of a provider's limit; nothing is sent to it for now", cause),
          null
        )
      ),
      Effect.annotateLogs({ provider }),
      // A logger of the application may throw. The requests still get their answer, and later ones theirs.
      Effect.catchCause(() => Effect.succeed(null))
    )
    assign(askers, permits, askedAt, yield* readClocks)
  }
)

const pauseLeft = Effect.fnUntraced(function*(state: ProviderState) {
  if (state.pause === null) return 0
  const left = state.pause.millis - (yield* elapsed(state.pause.since))
  if (left <= 0) state.pause = null
  return Math.max(0, left)
})

const whileWaiting = <A>(state: ProviderState, kind: RequestKind, effect: Effect.Effect<A>): Effect.Effect<A> =>
  Effect.suspend(() => {
    state.waiting[kind]++
    return Effect.ensuring(
      effect,
      Effect.sync(() => {
        state.waiting[kind]--
      })
    )
  })

/** Waits for a reserved permit. It is lost if the request is late, or if the provider is paused by then. */
const usePermit = Effect.fnUntraced(
  function*(state: ProviderState, { slack }: PermitTerms, { answeredAt, askedAt, millis }: ReservedPermit) {
    // A timer may end a moment early.
    for (let left = millis; left > 0; left = millis - (yield* monotonicElapsed(answeredAt))) {
      yield* Effect.sleep(Math.ceil(left))
    }
    const pause = yield* pauseLeft(state)
    if (pause > 0) return wait(pause)
    return (yield* elapsed(askedAt)) > millis + slack / 2000 ? wait(0) : begin
  }
)

const make = Effect.gen(function*() {
  const limits = yield* ProviderLimits
  const context = yield* Effect.context<never>()
  const providers = yield* Providers
  const { storeTimeout } = yield* SubmissionPolicy
  const metrics = yield* SubmissionMetrics
  // The authorization of an attempt must not grow older than `storeTimeout` while it waits.
  const horizon = Math.min(longestHorizon, Duration.toMillis(storeTimeout) / 4)
  const limitOf = (provider: ProviderName, limit: ProviderLimit): ProviderState["limit"] => {
    const terms = permitTerms(limit, horizon)
    // In the context of the process, because a reservation is for several requests.
    const ask = gatherCalls(context, (askers: ReadonlyArray<Asker>) => reserve(limits, provider, terms, askers))
    return { terms, ask }
  }
  const stateOf = memoize((provider: ProviderName): ProviderState => {
    const limit = providers.get(provider)?.limit
    return {
      limit: limit === undefined ? null : limitOf(provider, limit),
      pause: null,
      waiting: { submissions: 0, reads: 0 }
    }
  })

  const takePermit = Effect.fnUntraced(function*(provider: ProviderName, kind: RequestKind) {
    const state = stateOf(provider)
    const pause = yield* pauseLeft(state)
    if (pause > 0) return wait(pause)
    const { limit } = state
    if (limit === null) return begin
    const answer = yield* whileWaiting(state, kind, limit.ask(kind))
    if (answer._tag !== "Permit") return answer
    if (metrics !== null && answer.millis > 0) metrics.of(provider).waits.value++
    return yield* usePermit(state, limit.terms, answer)
  })

  const open = Effect.fnUntraced(function*(provider: ProviderName, kind: RequestKind, limit: number) {
    const state = stateOf(provider)
    const pause = yield* pauseLeft(state)
    if (pause > 0) return { count: 0, again: pause }
    if (state.limit === null) return { count: limit, again: 0 }
    const waiting = state.waiting[kind]
    const demand = { submissions: 0, reads: 0, [kind]: waiting + limit }
    const permits = yield* withinStore(limits.openPermits(provider, demand, state.limit.terms))
    return {
      count: Math.max(0, permits[kind].permits.length - waiting),
      again: Math.max(permits[kind].again, shortestWait)
    }
  }, (permits, provider) =>
    Effect.catchCause(permits, (cause) =>
      // Nothing can be claimed without the database either. The next poll asks again.
      Effect.as(
        Effect.annotateLogs(logFailure("Could not read the limit of a provider; nothing is taken for now", cause), {
          provider
        }),
        { count: 0, again: Infinity }
      )))

  const slowDown = Effect.fnUntraced(function*(provider: ProviderName, retryAfter: unknown) {
    // An adapter without type checks may give another value.
    if (!Duration.isDuration(retryAfter) || !Duration.isPositive(retryAfter)) return
    const state = stateOf(provider)
    const pause = Duration.min(retryAfter, longestRetryAfter)
    const millis = Duration.toMillis(pause)
    const left = yield* pauseLeft(state)
    if (left >= millis) return
    state.pause = { since: yield* readClocks, millis }
    if (metrics !== null) metrics.of(provider).pauses.value += (millis - left) / 1000
    if (left === 0) {
      yield* Effect.annotateLogs(
        Effect.logWarning(
          "A provider asked to wait (Retry-After): nothing is sent to it, and no status is read until then"
        ),
        { provider, retry_after_ms: millis }
      )
    }
    if (state.limit === null) return
    yield* withinStore(limits.closeProvider(provider, pause)).pipe(
      Effect.catchCause((cause) =>
        logFailure("Could not tell other workers that a provider asked to wait; they ask it themselves", cause)
      ),
      Effect.annotateLogs({ provider }),
      Effect.forkDetach
    )
  })

  return RequestPermits.of({
    mayWait: (provider) => {
      const { limit, pause } = stateOf(provider)
      return limit !== null || pause !== null
    },
    horizon: (provider) => stateOf(provider).limit === null ? 0 : horizon,
    pauseOf: (provider) => Effect.suspend(() => pauseLeft(stateOf(provider))),
    takePermit,
    rest: (provider, kind, millis) => Effect.suspend(() => whileWaiting(stateOf(provider), kind, Effect.sleep(millis))),
    open,
    slowDown
  })
})
