/**
 * Decodes a provider's answer by its status and the schema of its body. An answer that the adapter does not declare has no
 * meaning. `Retry-After` of 429 and 503 says how long the provider asks to send nothing (RFC 9110 §10.2.3, RFC 6585 §4).
 */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Headers from "effect/http/Headers"
import * as Schema from "effect/Schema"
import { pauseReasons } from "../../domain/operators/FiguresForm.ts"
import { longestRetryAfter } from "../../domain/ProviderLimit.ts"
import { type EvidentAnswer, type Known, NotSent, type StatusAnswer, Uncertain } from "../providers/ProviderAdapter.ts"

/** The three forms of an HTTP-date (RFC 9110 §5.6.7). The last two are obsolete, and a recipient must accept them. */
const forms = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/u,
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/u,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/u
]

/** Milliseconds since 1970; NaN if the text is no HTTP-date. A year of two digits is one from 1950 to 2049. */
const parseDate = (text: string): number =>
  forms.some((form) => form.test(text)) ? Date.parse(text.endsWith(" GMT") ? text : `${text} GMT`) : NaN

/**
 * The delay of an answer with 429 or 503. A date counts from `Date` of the answer, or else from `now` in milliseconds since
 * 1970. The longest delay is 5 minutes. Undefined without the field, with an invalid one, and without a delay.
 */
export const retryAfterOf = (
  { headers, status }: { readonly headers: Headers.Headers; readonly status: number },
  now: number
): Duration.Duration | undefined => {
  const text = status === 429 || status === 503 ? headers["retry-after"]?.trim() : undefined
  if (text === undefined) return undefined
  const date = parseDate(headers["date"]?.trim() ?? "")
  const sentAt = Number.isNaN(date) ? now : date
  const until = /^\d+$/u.test(text) ? sentAt + Number(text) * 1000 : parseDate(text)
  if (!(until > sentAt)) return undefined
  return Duration.millis(Math.min(until - sentAt, Duration.toMillis(longestRetryAfter)))
}

/** The delay as a member, which is left out without one. */
export const withRetryAfter = (retryAfter: Duration.Duration | undefined) =>
  retryAfter === undefined ? {} : { retryAfter }

/** A complete answer of the provider, with a JSON body or none. Redirects never become one. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers.Headers
  /** The body as it arrived, byte for byte, for its signature. */
  readonly bytes: Uint8Array
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
 * The answer to a status read names what to read next: another resource, which has the state, or the next page of a list.
 * `HttpProvider` reads that as well, with the same credentials. After 8 of them without a state, the read proves nothing. Each waits for a
 * permit of the provider's limit.
 */
export class ReadOn extends Data.TaggedClass("ReadOn")<{
  /** Path below the base URL; begins with `/`. Encode inserted values with `encodeURIComponent`. */
  readonly path: string
  /**
   * The meaning of the answer of another resource. That it is not found says nothing of the operation. Absent for the next page: then
   * `status.decode` has its meaning, and `NotFound` counts, because no page had the operation.
   */
  readonly decode?: Decode<StatusAnswer | ReadOn, NotSent>
}> {}

/** The order that has the key of an operation, by an answer to a fence. */
export type KeyHolder = Data.TaggedEnum<{
  /** The first order, or an order of the fence that a person carried out: its state is that of the operation. */
  First: Pick<Known, "names">
  /** The order of the fence. It has paid nothing: it waits, or it is cancelled, also by the provider, and keeps the key. */
  Own: Pick<Known, "names"> & Pick<EvidentAnswer, "evidence"> & { readonly isCancelled: boolean }
  /** The answer does not name it. A status read by the key shows it. */
  Unnamed: {}
}>
export const KeyHolder = Data.taggedEnum<KeyHolder>()

/**
 * Decodes an answer whose body fits the schema.
 *
 * The body may have further members, because providers add some. Declare every member that `meaning` depends on in the
 * schema. `meaning` may return an effect that fails: with `NotSent` if the provider documents that it did nothing, or with `NotUnderstood`.
 */
export const onBody = <T, A, E = never>(
  schema: Schema.ConstraintDecoder<T>,
  meaning: (body: T, answer: HttpAnswer) => A | Effect.Effect<A, E | NotUnderstood>
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

/**
 * Makes decoders that understand an answer only if `check` succeeds, such as one of its signature. Otherwise it is as if the provider had said
 * nothing: the answer proves neither a payment nor a refusal. `check` fails with the reason, for logs, which contains nothing of the body.
 */
export const onlyIf =
  (check: (answer: HttpAnswer) => Effect.Effect<void, string>) =>
  <A, E>(decode: Decode<A, E>): Decode<A, E> =>
  (answer) =>
    Effect.flatMap(
      Effect.mapError(check(answer), (reason) => new NotUnderstood({ reason: `status ${answer.status}, ${reason}` })),
      () => decode(answer)
    )

/** Makes decoders that understand an answer only if it is about the right thing. `what` names the thing in the log, such as "order". */
export const onlyAbout =
  <T>(schema: Schema.ConstraintDecoder<T>, what: string, isAbout: (body: T, answer: HttpAnswer) => boolean) =>
  <A, E>(decode: Decode<A, E>): Decode<A, E> =>
    onBody<T, A, E>(schema, (body, answer) =>
      isAbout(body, answer)
        ? decode(answer)
        : Effect.fail(new NotUnderstood({ reason: `status ${answer.status}, about another ${what}` })))

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
    new NotSent({ reason: `${pauseReasons.credentials}: status ${status}`, isRefused: true, isLocal: true })
  )

const NoCode = Schema.Struct({ code: Schema.optionalKey(Schema.Never) })

/**
 * Decodes an answer to a submission that likely refuses the credentials, in a body without `code`. The provider does not document that it then
 * did nothing, so the operation is uncertain. The first such answer pauses the provider.
 */
export const maybeUnauthorized: Decode<never, Uncertain> = onBody(NoCode, (_, { status }) =>
  Effect.fail(
    new Uncertain({ reason: `status ${status}, without a code`, isUndeclared: true, isUnauthorized: true })
  ))

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
