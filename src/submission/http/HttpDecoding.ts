/**
 * From a provider's answer to its meaning: by status and by the schema of the body. What is not declared means nothing.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Headers from "effect/http/Headers"
import * as Schema from "effect/Schema"

/** A complete answer of the provider. Redirects and bodies that are not JSON never become one. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers.Headers
  /** Null when the answer says that it has no body (204, or a `Content-Length` of 0). */
  readonly body: Schema.Json
}

/** The answer is none of those that were declared. */
export class NotUnderstood extends Data.TaggedError("NotUnderstood")<{
  /** Why; without anything of the body. */
  readonly reason: string
}> {}

/** Tells what an answer means. A defect, or no end within the deadline for bodies, is the same as `NotUnderstood`. */
export type Decode<A, E = never> = (answer: HttpAnswer) => Effect.Effect<A, NotUnderstood | E>

/**
 * What an answer of one status means, when its body fits the schema.
 *
 * Further members of the body are allowed, because providers add some; every member that the meaning rests on belongs
 * into the schema. The meaning may be an effect, which may fail: with `NotSent`, for a provider that documents that it
 * did nothing.
 */
export const onBody = <T, A, E = never>(
  schema: Schema.ConstraintDecoder<T>,
  meaning: (body: T, answer: HttpAnswer) => A | Effect.Effect<A, E>
): Decode<A, E> => {
  const decode = Schema.decodeUnknownOption(schema)
  return (answer) =>
    Effect.suspend((): Effect.Effect<A, NotUnderstood | E> => {
      const body = decode(answer.body)
      if (body._tag === "None") {
        return Effect.fail(new NotUnderstood({ reason: `status ${answer.status} with another body than declared` }))
      }
      const result = meaning(body.value, answer)
      return Effect.isEffect(result) ? result : Effect.succeed(result)
    })
}

type Meaning<D> = D extends Decode<infer A, unknown> ? A : never
type Refusal<D> = D extends (answer: HttpAnswer) => Effect.Effect<unknown, infer E> ? Exclude<E, NotUnderstood> : never

/** The first meaning that fits. */
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

/** What answers mean, by their status. */
export const byStatus = <D extends Decode<unknown, unknown>>(
  meanings: Readonly<Record<number, D>>
): Decode<Meaning<D>, Refusal<D>> =>
(answer) =>
  Object.hasOwn(meanings, answer.status)
    ? meanings[answer.status]!(answer) as ReturnType<Decode<Meaning<D>, Refusal<D>>>
    : Effect.fail(new NotUnderstood({ reason: `status ${answer.status}, which is not declared` }))

/** The answer as evidence: what the provider said, to be kept in the history. */
export const evidenceOf = ({ body, status }: HttpAnswer): Schema.Json => ({ status, body })
