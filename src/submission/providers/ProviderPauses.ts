/**
 * Stops the claims for a provider after a local failure, such as wrong credentials, and after answers in a row that the adapter does not
 * declare, such as those of a wrong address: every operation would meet them. An answer that names another operation counts as
 * undeclared. Local failures that may be of one operation alone, such as its payload or the credentials of its owner, pause the provider
 * only if five owners meet them without a declared answer in between: otherwise an agent of one owner could stop the payments of all.
 * The worker then claims one operation at a time as a probe, until an attempt shows that the cause has passed. Status reads neither begin
 * nor end a pause, except the probe of the adapter: it may begin a pause at the start of the worker.
 * In a pause for a wrong path no operation is claimed until the probe passes. In one for refused credentials operations probe, too: a
 * refused one costs nothing.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as PubSub from "effect/PubSub"
import * as Stream from "effect/Stream"
import type { ProviderName, ResourceOwner } from "../../domain/Grant.ts"
import type { OperationId } from "../../domain/Operation.ts"
import { pauseReasons } from "../../domain/operators/FiguresForm.ts"
import type { ProviderOperation } from "../../domain/Submission.ts"
import { memoize } from "../../metrics/Series.ts"
import { type PauseCause, SubmissionMetrics } from "../../metrics/SubmissionMetrics.ts"
import { type ClockReading, elapsed, readClocks } from "../elapsed.ts"
import { describeContradiction, findContradiction } from "./AnswerRecord.ts"
import type { NotSent, SubmissionAnswer, Uncertain } from "./ProviderAdapter.ts"

/**
 * Answers in a row that the adapter does not declare, after which the provider is paused. As many attempts may be under way while no answer
 * shows that the adapter understands the provider, so that a wrong address costs no more operations.
 */
const mostUndeclared = 5

/**
 * Owners with a local failure of one operation, without a declared answer between them, after which the cause may be of all. One owner never
 * counts twice, also if no other is active: operations of others come after its own, and one probe at a time would keep them waiting.
 */
const mostOwners = 5

/** Milliseconds. A probe that meets an undeclared answer makes an operation `indeterminate`; one that fails locally costs nothing. */
const shortest: Readonly<Record<Failure["cause"], number>> = { local_failure: 1000, undeclared_answers: 30_000 }
const longest: Readonly<Record<Failure["cause"], number>> = { local_failure: 10_000, undeclared_answers: 300_000 }

interface Failure {
  readonly cause: Exclude<PauseCause, "circuit">
  /** For the log and for operators. */
  readonly reason: string
  /** Found by the probe of the adapter, which then ends the pause. */
  readonly isProbed?: boolean
}

/** An operation would become `indeterminate`, so none is sent as the probe of this pause. */
const hasWrongPath = ({ cause, isProbed }: Failure): boolean => isProbed === true && cause === "undeclared_answers"

export interface ProviderPause {
  failure: Failure
  since: ClockReading
  /** Milliseconds. */
  length: number
  /** Whether an operation is claimed as its probe, and has not ended. */
  isProbing: boolean
  /** Claims that were returned in it. */
  returned: number
}

/** How many operations may be claimed, and the pause whose probe they are. */
interface Admission {
  readonly limit: number
  readonly probeOf: ProviderPause | null
}

/** Whether an attempt may begin. It tells its `end`, or waits `until` another one has ended. */
type AttemptStart =
  | { readonly _tag: "Begin"; readonly end: Effect.Effect<void> }
  | { readonly _tag: "Wait"; readonly until: Effect.Effect<void> }
  | { readonly _tag: "Paused"; readonly reason: string }

type Attempt = Exit.Exit<SubmissionAnswer, NotSent | Uncertain>

/** What the worker knows of a provider. */
interface ProviderState {
  pause: ProviderPause | null
  /** Undeclared answers since the last declared one. Null: there was no declared one yet, nor an undeclared one. */
  undeclared: number | null
  /** What the last undeclared answer was. */
  undeclaredReason: string
  /** Why the last attempt could not reach the provider. Null: it could, or there was none. */
  unreachable: string | null
  /** The attempts that could not reach the provider since its last answer, and the cause of the last failure. Null: none. */
  outage: { cause: string; attempts: number } | null
  /**
   * The owners of the last local failures that may be of one operation alone, since the last declared answer, `mostOwners` at most. Each
   * with the operation of its last one.
   */
  ofOperation: ReadonlyMap<ResourceOwner, OperationId>
  underWay: number
  /** Released when an attempt ends. */
  readonly ended: Latch.Latch
}

/** The pauses of a worker, in its memory. */
export class ProviderPauses extends Context.Service<ProviderPauses, {
  /** Admits a claim of up to `limit` operations: all of them, one as a probe, or none. */
  readonly admit: (provider: ProviderName, limit: number) => Effect.Effect<Admission>
  /** Ends a probe, so that another one may begin: it has ended, or nothing was claimed. */
  readonly release: (probeOf: ProviderPause | null) => Effect.Effect<void>
  /** Begins an attempt of an operation that was claimed as this probe, or as none. */
  readonly beginAttempt: (provider: ProviderName, probeOf: ProviderPause | null) => AttemptStart
  /** Takes note of a local failure of an operation that was claimed as this probe, or as none. */
  readonly fail: (provider: ProviderName, probeOf: ProviderPause | null, reason: string) => Effect.Effect<void>
  /** Takes note of an attempt of an operation that was claimed as this probe, or as none. */
  readonly observe: (
    provider: ProviderName,
    probeOf: ProviderPause | null,
    attempt: Attempt,
    operation: Pick<ProviderOperation, "id" | "resource_owner">
  ) => Effect.Effect<void>
  /**
   * Pauses a provider whose probe speaks against its settings, until `trust`. Does nothing once an attempt has shown more. A declared
   * answer to an attempt that is under way ends the pause, too.
   */
  readonly suspect: (provider: ProviderName, reason: string) => Effect.Effect<void>
  /** Whether the provider is paused because of `suspect` alone: no attempt has failed since. */
  readonly isSuspected: (provider: ProviderName) => boolean
  /** Ends the pause of `suspect`: a probe has passed. */
  readonly trust: (provider: ProviderName) => Effect.Effect<void>
  /** Counts the return of a claim in the pause of the provider. False: it is not paused. */
  readonly countReturn: (provider: ProviderName) => boolean
  /** Why the provider is paused; null if it is not. */
  readonly reasonOf: (provider: ProviderName) => string | null
  /** Why the last attempt could not reach the provider. Null: it could, or there was none. */
  readonly unreachable: (provider: ProviderName) => string | null
  /** The providers whose pause begins, ends or has another cause. */
  readonly changes: Stream.Stream<ProviderName>
}>()("financial-agents-gateway/submission/providers/ProviderPauses") {
  static readonly layer: Layer.Layer<ProviderPauses> = Layer.effect(ProviderPauses, Effect.suspend(() => make))
}

const check = "check the credentials, the address and the path of the provider, and what the adapter declares"

const pauseMessages: Readonly<Record<Failure["cause"] | "probe", string>> = {
  probe:
    "Paused a provider whose probe failed, a read at the start that changes nothing: its operations wait, and none is sent. "
    + "Likely its address has a wrong path: check the address and the path of the provider, and restart. The worker repeats the probe, "
    + "and resumes once it passes",
  local_failure:
    "Paused a provider after a local failure: its operations wait. Repair the reason, such as credentials, the "
    + "adapter or the clock; the worker tries one operation at a time, and resumes by itself",
  undeclared_answers:
    "Paused a provider after answers that the adapter does not declare: its operations wait. Likely the adapter "
    + `or its settings have a mistake: ${check}. The worker tries one operation at a time, less and less often. Each undeclared `
    + "answer leaves one operation indeterminate"
}

const describe = (failure: Failure): string =>
  hasWrongPath(failure)
    ? `${pauseReasons.probe}: ${failure.reason}`
    : failure.cause === "undeclared_answers"
    ? `${pauseReasons.undeclared}: ${failure.reason}`
    : failure.reason

const logWarning = (message: string, provider: ProviderName, reason: string) =>
  Effect.annotateLogs(Effect.logWarning(message), { provider, reason })

const make = Effect.gen(function*() {
  const metrics = yield* SubmissionMetrics
  const changed = yield* PubSub.unbounded<ProviderName>()
  const stateOf = memoize<ProviderName, ProviderState>(() => ({
    pause: null,
    undeclared: null,
    undeclaredReason: "",
    unreachable: null,
    outage: null,
    ofOperation: new Map(),
    underWay: 0,
    ended: Latch.makeUnsafe(false)
  }))

  const announce = (provider: ProviderName, cause: Failure["cause"] | null) => {
    if (metrics !== null) metrics.of(provider).pause = cause
    return PubSub.publish(changed, provider)
  }

  const fail = Effect.fnUntraced(function*(provider: ProviderName, probeOf: ProviderPause | null, failure: Failure) {
    const state = stateOf(provider)
    const since = yield* readClocks
    const { pause } = state
    // An operation that was claimed before the pause tells nothing new of the failure.
    if (pause !== null && pause !== probeOf) return
    const before = pause?.failure.cause
    const length = pause === null || before !== failure.cause
      ? shortest[failure.cause]
      : Math.min(Math.max(2 * pause.length, shortest[failure.cause]), longest[failure.cause])
    if (pause === null) state.pause = { failure, since, length, isProbing: false, returned: 0 }
    else Object.assign(pause, { failure, since, length })
    if (before === failure.cause) return
    yield* announce(provider, failure.cause)
    yield* logWarning(pauseMessages[hasWrongPath(failure) ? "probe" : failure.cause], provider, failure.reason)
  })

  const pass = (provider: ProviderName, why = "an attempt has shown that the cause of its pause has passed") =>
    Effect.suspend(() => {
      const state = stateOf(provider)
      if (state.pause === null) return Effect.void
      const { returned } = state.pause
      state.pause = null
      const message = `Resumed a provider: ${why}`
      return Effect.andThen(
        announce(provider, null),
        Effect.annotateLogs(Effect.logInfo(message), { provider, returned_claims: returned })
      )
    })

  /** One line for each cause: while a provider is down, each attempt of each operation fails. */
  const logOutage = (provider: ProviderName, attempt: Attempt, error: NotSent | Uncertain | null) => {
    const state = stateOf(provider)
    const { outage, unreachable } = state
    if (unreachable !== null) {
      state.outage = { cause: unreachable, attempts: (outage?.attempts ?? 0) + 1 }
      return outage?.cause === unreachable
        ? Effect.void
        : logWarning("Could not reach the provider: nothing was sent", provider, unreachable)
    }
    if (outage === null) return Effect.void
    const isAnswered = Exit.isSuccess(attempt) || error?._tag === "NotSent" && error.isRefused === true
      || error?._tag === "Uncertain" && error.isUndeclared === true
    state.outage = isAnswered ? null : { ...outage, cause: error?.reason ?? "" }
    if (!isAnswered) return Effect.void
    const message = "The provider answers again: further attempts reach it"
    return Effect.annotateLogs(Effect.logInfo(message), { provider, failed_attempts: outage.attempts })
  }

  /** After an attempt without a local failure. Too many undeclared answers pause the provider until the first declared one. */
  const resume = (provider: ProviderName, probeOf: ProviderPause | null) => {
    const { undeclared, undeclaredReason } = stateOf(provider)
    return (undeclared ?? 0) < mostUndeclared
      ? pass(provider)
      : fail(provider, probeOf, { cause: "undeclared_answers", reason: undeclaredReason })
  }

  const countUndeclared = Effect.fnUntraced(function*(
    provider: ProviderName,
    probeOf: ProviderPause | null,
    reason: string,
    weight = 1
  ) {
    const state = stateOf(provider)
    state.undeclared = (state.undeclared ?? 0) + weight
    state.undeclaredReason = reason
    if (state.undeclared === 1) {
      const message = `A provider gave an answer that the adapter does not declare. If it is not an exception, ${check}`
      yield* logWarning(message, provider, reason)
    }
    yield* resume(provider, probeOf)
  })

  /** Yields the operations of the owners whose failures follow one another, up to `mostOwners`. */
  const noteFailed = (
    provider: ProviderName,
    { id, resource_owner }: Pick<ProviderOperation, "id" | "resource_owner">
  ): ReadonlyArray<OperationId> => {
    const state = stateOf(provider)
    const others = [...state.ofOperation].filter(([owner]) => owner !== resource_owner)
    state.ofOperation = new Map([...others, [resource_owner, id] as const].slice(-mostOwners))
    return [...state.ofOperation.values()]
  }

  return ProviderPauses.of({
    admit: Effect.fnUntraced(function*(provider, limit) {
      const { pause } = stateOf(provider)
      if (pause === null || limit <= 0) return { limit, probeOf: null }
      if (hasWrongPath(pause.failure) || pause.isProbing || (yield* elapsed(pause.since)) < pause.length) {
        return { limit: 0, probeOf: null }
      }
      pause.isProbing = true
      return { limit: 1, probeOf: pause }
    }),
    release: (probeOf) =>
      Effect.sync(() => {
        if (probeOf !== null) probeOf.isProbing = false
      }),
    beginAttempt: (provider, probeOf) => {
      const state = stateOf(provider)
      const { ended, pause, undeclared } = state
      if (pause?.failure.cause === "undeclared_answers" && pause !== probeOf) {
        return { _tag: "Paused", reason: describe(pause.failure) }
      }
      if (undeclared !== 0 && state.underWay >= mostUndeclared) return { _tag: "Wait", until: ended.await }
      state.underWay++
      const end = Effect.suspend(() => {
        state.underWay--
        return ended.release
      })
      return { _tag: "Begin", end }
    },
    fail: (provider, probeOf, reason) => fail(provider, probeOf, { cause: "local_failure", reason }),
    observe: Effect.fnUntraced(function*(provider, probeOf, attempt, operation) {
      const { id } = operation
      if (Exit.isFailure(attempt) && Cause.hasInterruptsOnly(attempt.cause)) return
      const error = Exit.isSuccess(attempt) ? null : Option.getOrNull(Cause.findErrorOption(attempt.cause))
      // An operation that can never be sent tells nothing of the others.
      if (error?._tag === "NotSent" && error.isPermanent === true) return
      const isAway = error?._tag === "NotSent" && error.isRefused !== true && error.isLocal !== true
      stateOf(provider).unreachable = isAway ? error.reason : null
      yield* logOutage(provider, attempt, error)
      if (error?._tag === "NotSent" && error.isLocal === true) {
        const failed = error.isOfOperation === true ? noteFailed(provider, operation) : []
        if (error.isOfOperation === true && failed.length < mostOwners) return
        const named = failed.length > 0 ? ` (operations ${failed.join(", ")})` : ""
        return yield* fail(provider, probeOf, { cause: "local_failure", reason: error.reason + named })
      }
      if (error?._tag === "Uncertain" && error.isUndeclared === true) {
        // Every operation would meet refused credentials.
        const weight = error.isUnauthorized === true ? mostUndeclared : 1
        return yield* countUndeclared(provider, probeOf, error.reason, weight)
      }
      // An adapter without type checks may answer with anything.
      const other = Exit.isSuccess(attempt) ? findContradiction(attempt.value?.names, { id, reference: null }) : null
      if (other !== null) return yield* countUndeclared(provider, probeOf, describeContradiction(other))
      // Without an answer, nothing shows that the adapter understands the provider.
      const isDeclared = Exit.isSuccess(attempt) || error?._tag === "NotSent" && error.isRefused === true
      if (isDeclared) Object.assign(stateOf(provider), { undeclared: 0, ofOperation: new Map() })
      return yield* resume(provider, probeOf)
    }),
    suspect: Effect.fnUntraced(function*(provider, reason) {
      const state = stateOf(provider)
      if (state.pause !== null || state.undeclared !== null) return
      if (reason.startsWith(pauseReasons.credentials)) {
        return yield* fail(provider, null, { cause: "local_failure", reason, isProbed: true })
      }
      state.undeclared = mostUndeclared
      state.undeclaredReason = reason
      yield* fail(provider, null, { cause: "undeclared_answers", reason, isProbed: true })
    }),
    isSuspected: (provider) => stateOf(provider).pause?.failure.isProbed === true,
    trust: (provider) =>
      Effect.suspend(() => {
        const state = stateOf(provider)
        if (state.pause?.failure.isProbed !== true) return Effect.void
        // As at the start: no answer to an attempt is known yet.
        if (hasWrongPath(state.pause.failure)) state.undeclared = null
        return pass(provider, "its probe passed")
      }),
    countReturn: (provider) => {
      const { pause } = stateOf(provider)
      if (pause !== null) pause.returned++
      return pause !== null
    },
    reasonOf: (provider) => {
      const { pause } = stateOf(provider)
      return pause === null ? null : describe(pause.failure)
    },
    unreachable: (provider) => stateOf(provider).unreachable,
    changes: Stream.fromPubSub(changed)
  })
})
