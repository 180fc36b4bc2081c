/**
 * Answers the requests of clients: the dialect reads them, the engine decides, and the faults strike the answers. Keeps in memory when the
 * last ones arrived, and can turn away those that are more than a provider takes.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Latch from "effect/Latch"
import type { IncomingMessage, ServerResponse } from "node:http"
import type { Demand, Dialect, RequestHead, Saying } from "./Dialect.ts"
import { chance, type FaultSettings, type Stage } from "./Faults.ts"
import type { SubmissionKey } from "./Protocol.ts"
import type { Reply, Submissions } from "./Submissions.ts"
import { hangUp, readBody, send, sendSpoilt } from "./Wire.ts"

/** A request that arrived. */
export interface Arrival {
  readonly kind: Stage
  /** Milliseconds since 1970. */
  readonly at: number
  /** Whether the fault `too_many_requests` or `unauthorized` struck it. */
  readonly isTurnedAway: boolean
}

/** Most arrivals that are kept: the last ones. */
const mostKept = 100_000

export const makeArrivals = (seed: string, faults: () => FaultSettings) => {
  let arrivals: Array<Arrival> = []
  // The requests that were admitted in the last window.
  let admitted: Array<number> = []
  let count = 0

  const note = (arrival: Arrival) => {
    arrivals.push(arrival)
    if (arrivals.length >= 2 * mostKept) arrivals = arrivals.slice(-mostKept)
  }

  /** Notes a request. Returns what turns it away, or null. */
  const admit = (kind: Stage, at: number): Saying | null => {
    const { too_many_requests: fault, unauthorized } = faults()
    if (chance(seed, "unauthorized", arrivals.length) < (unauthorized?.rate ?? 0)) {
      note({ kind, at, isTurnedAway: true })
      return { _tag: "Unauthorized" }
    }
    const { ms = 1000, requests = 50 } = fault ?? {}
    admitted = fault === undefined ? [] : admitted.filter((time) => time > at - ms)
    const isTurnedAway = fault !== undefined && admitted.length >= requests
      && chance(seed, "too_many_requests", ++count) < fault.rate
    note({ kind, at, isTurnedAway })
    if (fault === undefined) return null
    if (!isTurnedAway) {
      admitted.push(at)
      return null
    }
    const retryAfterSeconds = Math.max(1, Math.ceil((admitted[0]! + ms - at) / 1000))
    return { _tag: "TooManyRequests", retryAfterSeconds }
  }

  return { admit, all: (): ReadonlyArray<Arrival> => arrivals.slice(-mostKept) }
}

export type Arrivals = ReturnType<typeof makeArrivals>

interface BankRequestsOptions {
  readonly dialect: Dialect
  readonly submissions: Submissions
  readonly arrivals: Arrivals
  /** Opens when the sandbox stops. Ends the pause before a slow or late answer. */
  readonly closing: Latch.Latch
}

export const headOf = ({ headers, method = "", url = "/" }: IncomingMessage, now: number): RequestHead => {
  const [path = "/", query] = url.split("?", 2)
  return { method, path, query: new URLSearchParams(query), headers, now }
}

/** Answers a request, unless it is one too many. */
export const answerDemand = Effect.fnUntraced(function*(
  options: BankRequestsOptions,
  demand: Demand,
  head: RequestHead,
  request: IncomingMessage,
  response: ServerResponse
) {
  const { arrivals, dialect: { write }, submissions } = options
  if (demand._tag === "Answered") {
    if (typeof demand.answer !== "function") return yield* send(response, demand.answer)
    const body = yield* readBody(request)
    return yield* typeof body === "string"
      ? Effect.sync(() => hangUp(response))
      : send(response, demand.answer(body.toString("utf8")))
  }
  const refusal = arrivals.admit(demand._tag === "Submit" ? "submission" : "status", yield* Clock.currentTimeMillis)
  if (refusal !== null) return yield* send(response, write(refusal, head))
  if (demand._tag !== "Submit") {
    const reply = demand._tag === "Cancel" || demand._tag === "Approve"
      ? submissions.decide(demand, head)
      : submissions.read(demand, head)
    return yield* answer(options, response, yield* reply)
  }
  const reply = yield* take(submissions, demand.key, head, request)
  if (reply === "incomplete") return hangUp(response)
  if (reply !== "too_large") return yield* answer(options, response, reply)
  response.shouldKeepAlive = false
  return yield* send(response, write({ _tag: "BodyTooLarge" }, head))
})

/** Receives and records a submission. A client that disconnects does not interrupt it and takes nothing back. */
const take = Effect.fnUntraced(
  function*(submissions: Submissions, key: SubmissionKey | null, head: RequestHead, request: IncomingMessage) {
    const body = yield* readBody(request)
    if (typeof body !== "string") return yield* submissions.receive({ key, head, body })
    if (key !== null) yield* submissions.abandon(key)
    return body
  },
  Effect.uninterruptible
)

/** Waits. Yields false when the sandbox stops meanwhile. */
const pause = ({ closing }: BankRequestsOptions, milliseconds: number): Effect.Effect<boolean> =>
  milliseconds === 0
    ? Effect.succeed(true)
    : Effect.raceFirst(Effect.as(Effect.sleep(milliseconds), true), Effect.as(closing.await, false))

const answer = Effect.fnUntraced(function*(options: BankRequestsOptions, response: ServerResponse, reply: Reply) {
  if (!(yield* pause(options, reply.slow))) return hangUp(response)
  const answer = reply.answer()
  if (answer === null || !(yield* pause(options, reply.late))) return hangUp(response)
  return yield* reply.spoiler === null ? send(response, answer) : sendSpoilt(response, answer, reply.spoiler)
})
