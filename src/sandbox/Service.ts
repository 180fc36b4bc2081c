/**
 * The service for clients: takes submissions, and answers status reads.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Latch from "effect/Latch"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { IncomingMessage, ServerResponse } from "node:http"
import { problemAnswer } from "./Answer.ts"
import type { Arrivals } from "./Arrivals.ts"
import type { Stage } from "./Faults.ts"
import { idempotencyKeyHeader, sendBeforeHeader, SubmissionKey, submissionsPath } from "./Protocol.ts"
import { reason } from "./Reason.ts"
import type { Reply, Submissions } from "./Submissions.ts"
import { hangUp, keyIn, readBody, send, sendSpoilt, wrongMethod } from "./Wire.ts"

export interface ServiceOptions {
  readonly submissions: Submissions
  readonly arrivals: Arrivals
  /** Opens when the sandbox stops. Ends the pause before a slow or late answer. */
  readonly closing: Latch.Latch
}

/** Whether a path belongs to the service. */
export const isServicePath = (path: string): boolean =>
  path === submissionsPath || path.startsWith(`${submissionsPath}/`)

/** Answers a request to the service. */
export const serve = (options: ServiceOptions, request: IncomingMessage, response: ServerResponse, path: string) => {
  if (path === submissionsPath) {
    if (request.method !== "POST") return send(response, wrongMethod("POST"))
    return admitted(options, response, "submission", submit(options, request, response))
  }
  if (request.method !== "GET") return send(response, wrongMethod("GET"))
  return admitted(options, response, "status", readStatus(options, response, path))
}

/** Answers a request, unless it is one too many. */
const admitted = <E>(
  { arrivals }: ServiceOptions,
  response: ServerResponse,
  kind: Stage,
  answer: Effect.Effect<void, E>
): Effect.Effect<void, E> =>
  Clock.clockWith((clock) => {
    const refusal = arrivals.admit(kind, clock.currentTimeMillisUnsafe())
    return refusal === null ? answer : send(response, refusal)
  })

const readStatus = (options: ServiceOptions, response: ServerResponse, path: string) => {
  const key = keyIn(path, `${submissionsPath}/`)
  return typeof key === "string"
    ? Effect.flatMap(options.submissions.read(key), (reply) => answer(options, response, reply))
    : send(response, key)
}

const decodeKey = Schema.decodeUnknownResult(SubmissionKey)

const submit = Effect.fnUntraced(
  function*(options: ServiceOptions, request: IncomingMessage, response: ServerResponse) {
    const key = decodeKey(request.headers[idempotencyKeyHeader])
    if (Result.isFailure(key)) {
      return yield* send(response, problemAnswer(400, "invalid_key", `Idempotency-Key: ${reason(key.failure)}`))
    }
    const reply = yield* take(options.submissions, key.success, request)
    if (reply === "incomplete") return hangUp(response)
    if (reply !== "too_large") return yield* answer(options, response, reply)
    response.shouldKeepAlive = false
    return yield* send(response, problemAnswer(413, "body_too_large", "The body is too large"))
  }
)

/** Receives and records a submission. A client that disconnects does not interrupt it and takes nothing back. */
const take = Effect.fnUntraced(function*(submissions: Submissions, key: SubmissionKey, request: IncomingMessage) {
  const body = yield* readBody(request)
  if (typeof body === "string") {
    yield* submissions.abandon(key)
    return body
  }
  const sendBefore = request.headers[sendBeforeHeader]
  return yield* submissions.receive({ key, body, sendBefore: Array.isArray(sendBefore) ? sendBefore[0] : sendBefore })
}, Effect.uninterruptible)

/** Waits. Yields false when the sandbox stops meanwhile. */
const pause = ({ closing }: ServiceOptions, milliseconds: number): Effect.Effect<boolean> =>
  milliseconds === 0
    ? Effect.succeed(true)
    : Effect.raceFirst(Effect.as(Effect.sleep(milliseconds), true), Effect.as(closing.await, false))

const answer = Effect.fnUntraced(function*(options: ServiceOptions, response: ServerResponse, reply: Reply) {
  if (!(yield* pause(options, reply.slow))) return hangUp(response)
  const answer = reply.answer()
  if (answer === null || !(yield* pause(options, reply.late))) return hangUp(response)
  return yield* reply.spoiler === null ? send(response, answer) : sendSpoilt(response, answer, reply.spoiler)
})
