/**
 * Decodes a provider's answer by its status and the schema of its body. An answer that the adapter does not declare has no
 * meaning.
 */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Headers from "effect/http/Headers"
import * as Schema from "effect/Schema"
import { NotSent } from "../providers/ProviderAdapter.ts"
import { retryAfterOf, withRetryAfter } from "./retryAfter.ts"

/** A complete answer of the provider, with a JSON body or none. Redirects never become one. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers.Headers
  /** Null if the response declares that it has no body (204, or a `Content-Length` of 0). */
  readonly body: Schema.Json
}

/** The adapter does not declare this answer. */
export class NotUnderstood extends Data.TaggedError("NotUnderstood")<{
  /** For logs. Contains nothing of the body. */
  readonly reason: string
}> {}

/** Decodes an answer. A defect, or a decoder that exceeds the deadline for bodies, counts as `NotUnderstood`. */
export type Decode<A, E = never> = (answer: HttpAnswer) => Effect.Effect<A, NotUnderstood | E>

/**
 * Decodes an answer whose body fits the schema.
 *
 * The body may have further members, because providers add some. Declare every member that `meaning` depends on in the
 * schema. `meaning` may return an effect that fails with `NotSent`, if the provider documents that it did nothing.
 */
export const onBody = <T, A, E = never>(
  schema: Schema.ConstraintDecoder<T>,
  meaning: (body: T, answer: HttpAnswer) => A | Effect.Effect<A, E>
): Decode<A, E> => {
  const decode = Schema.decodeUnknownOption(schema)
  // Without `Effect.suspend`: an answer that has its meaning at once needs no fiber with a time limit.
  return (answer) => {
    try {
      const body = decode(answer.body)
      if (body._tag === "None") {
        return Effect.fail(new NotUnderstood({ reason: `status ${answer.status}, with a body that is not declared` }))
      }
      const result = meaning(body.value, answer)
      return Effect.isEffect(result) ? result : Effect.succeed(result)
    } catch (defect) {
      return Effect.die(defect)
    }
  }
}

type Meaning<D> = D extends Decode<infer A, unknown> ? A : never
type Refusal<D> = D extends (answer: HttpAnswer) => Effect.Effect<unknown, infer E> ? Exclude<E, NotUnderstood> : never

/** Tries the decoders in order, and yields the result of the first one that understands the answer. */
export const firstOf = <D extends readonly [Decode<unknown, unknown>, ...ReadonlyArray<Decode<unknown, unknown>>]>(
  ...decodes: D
): Decode<Meaning<D[number]>, Refusal<D[number]>> =>
(answer) => {
  const [first, ...others] = decodes
  return others.reduce(
    (result, decode) => Effect.catchIf(result, (error) => error instanceof NotUnderstood, () => decode(answer)),
    first(answer)
  ) as ReturnType<Decode<Meaning<D[number]>, Refusal<D[number]>>>
}

/** Decodes answers by their status. */
export const byStatus = <D extends Decode<unknown, unknown>>(
  meanings: Readonly<Record<number, D>>
): Decode<Meaning<D>, Refusal<D>> =>
(answer) =>
  Object.hasOwn(meanings, answer.status)
    ? meanings[answer.status]!(answer) as ReturnType<Decode<Meaning<D>, Refusal<D>>>
    : Effect.fail(new NotUnderstood({ reason: `status ${answer.status}, which is not declared` }))

/**
 * Decodes 401 and 403 of a submission, if the provider documents that it then did nothing. The operations of the provider
 * wait until an operator has repaired the credentials. It does not read the body. In `status.decode`, the answer proves
 * nothing, and the log names the refusal.
 */
export const wrongCredentials: Decode<never, NotSent> = ({ status }) =>
  Effect.fail(
    new NotSent({ reason: `the provider refused the credentials: status ${status}`, isRefused: true, isLocal: true })
  )

/**
 * Decodes 429 and 503 of a submission, if the provider documents that it then did nothing. The operation is sent again
 * until `sendWithin`. With `Retry-After` the provider is paused for so long, 5 minutes at most, and an operation that cannot
 * wait for that is sent later. It does not read the body. In `status.decode`, the answer proves nothing.
 */
export const refusedForNow: Decode<never, NotSent> = (answer) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    Effect.fail(
      new NotSent({
        reason: `status ${answer.status}`,
        isRefused: true,
        ...withRetryAfter(retryAfterOf(answer, now))
      })
    ))

/** The evidence that an answer gives for a transition: its status and body. The history keeps it. */
export const evidenceOf = ({ body, status }: HttpAnswer): Schema.Json => ({ status, body })
