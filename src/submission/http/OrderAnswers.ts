/**
 * Meanings that several answers of a provider share, declared once: the order that an answer shows, the entry of a list, and errors. Each
 * makes a decoder for `byStatus`.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import {
  type AnswerNames,
  type Known,
  namesNothing,
  type NoEvidence,
  NotSent,
  type ProvenResult,
  type ProviderReference,
  StatusAnswer,
  SubmissionAnswer,
  submissionAnswerOf,
  Uncertain
} from "../providers/ProviderAdapter.ts"
import {
  byStatus,
  type Decode,
  type HttpAnswer,
  KeyHolder,
  NotUnderstood,
  onBody,
  onlyAbout,
  ReadOn,
  refusedForNow,
  wrongCredentials
} from "./HttpDecoding.ts"

/** An order of the provider, such as a payment or a transfer, as answers show it. */
export interface OrderOptions<T extends Schema.Json> {
  /** The members that count. Declare every member on which the other options depend. */
  readonly schema: Schema.ConstraintDecoder<T>
  /** Copied from the answer: the provider's reference, and the operation's id if the answer repeats it. */
  readonly names: (order: T, answer: HttpAnswer) => Known["names"]
  /** What the state of the order says of the operation. `earlier` are the orders that it replaced, the first one first. */
  readonly result: (order: T, earlier: ReadonlyArray<T>) => ProvenResult
  /** Default: the status, and of the body the members of the schema. `evidenceOf` keeps the whole body. */
  readonly evidence?: (answer: HttpAnswer) => Schema.Json
  /**
   * Why the order proves nothing; null if it proves `result`. Default: it always does. After a submission such an order is acknowledged: the
   * provider has it, and status reads ask the question.
   */
  readonly unproven?: (order: T) => NoEvidence | null
  /** Where the order is that replaced this one; null without one. The read goes on there. Default: orders are not replaced. */
  readonly replacedBy?: (order: T) => { readonly reference: ProviderReference; readonly path: string } | null
}

/** Whose order has the key after a fence, and whether that of the fence is cancelled: see `KeyHolder`. */
export type HolderOf<T> = (order: T) => "first" | "waiting" | "cancelled" | NotUnderstood

/** Decoders of the answers that show an order. */
export interface OrderAnswers<T> {
  /** Of a submission: `submitted` is an acknowledgement, and `failed` a refusal for ever. */
  readonly submitted: Decode<SubmissionAnswer>
  /** Of a status read. */
  readonly read: Decode<StatusAnswer | ReadOn>
  /** Of a fence. */
  readonly holder: (holderOf: HolderOf<T>) => Decode<KeyHolder>
}

/** The answer about the order that replaced another. A read with other answers proves nothing. */
const ofReplacement = <A>(decode: Decode<A>): Decode<A, NotSent> =>
  byStatus<Decode<A, NotSent>>({ 200: decode, 401: wrongCredentials, 403: wrongCredentials, 429: refusedForNow })

/** Declares an order. Its decoders need no other declaration for the statuses of a success. */
export const declareOrder = <T extends Schema.Json>(
  { evidence, names, replacedBy = () => null, result, schema, unproven = () => null }: OrderOptions<T>
): OrderAnswers<T> => {
  const evident = (order: T, answer: HttpAnswer) => ({
    names: names(order, answer),
    evidence: evidence?.(answer) ?? declared(order, answer)
  })

  /** The orders before a replacement. */
  interface Earlier {
    readonly names: Known["names"]
    readonly orders: ReadonlyArray<T>
    readonly evidence: ReadonlyArray<Schema.Json>
  }

  const read = (earlier: Earlier | null): Decode<StatusAnswer | ReadOn> =>
    onBody(schema, (order, answer) => {
      const nothing = earlier === null ? unproven(order) : null
      if (nothing !== null) return StatusAnswer.NotProven(nothing)
      const own = evident(order, answer)
      const next = replacedBy(order)
      const { evidence: before, names, orders } = earlier ?? { names: own.names, orders: [], evidence: [] }
      const all = [...before, own.evidence]
      if (next === null) {
        return StatusAnswer.Proven({
          ...result(order, orders),
          names,
          evidence: earlier === null ? own.evidence : all
        })
      }
      const decode = read({ names, orders: [...orders, order], evidence: all })
      return new ReadOn({ path: next.path, decode: ofReplacement(aboutOrder(next.reference)(decode)) })
    })

  /** An answer about another order proves nothing. */
  const aboutOrder = (reference: ProviderReference) =>
    onlyAbout(schema, "order", (order, answer) => names(order, answer).reference === reference)

  return {
    submitted: onBody(
      schema,
      (order, answer) => {
        const known = unproven(order) === null ? result(order, []) : { state: "submitted" as const }
        return submissionAnswerOf({ ...known, ...evident(order, answer) })
      }
    ),
    read: read(null),
    holder: (holderOf) =>
      onBody<T, KeyHolder>(schema, (order, answer) => {
        const holder = holderOf(order)
        if (holder instanceof NotUnderstood) return Effect.fail(holder)
        return holder === "first"
          ? KeyHolder.First({ names: names(order, answer) })
          : KeyHolder.Own({ ...evident(order, answer), isCancelled: holder === "cancelled" })
      })
  }
}

/**
 * Decodes the only entry of a list, which is in this member of the body, as an answer of its own. Its evidence has this entry alone. A list
 * with several entries, or without one, is not understood.
 */
export const onlyEntry = <A, E>(member: string, decode: Decode<A, E>): Decode<A, E> =>
  onBody(
    Schema.Struct({ [member]: Schema.Tuple([Schema.Json]) }),
    (list, answer) => decode({ ...answer, body: list[member]![0] })
  )

/** For a body that names no operation: see `namesNothing` for its condition. */
const none = () => namesNothing

/** The status, and of the body the members of the schema: any other may repeat the payload, such as an account number. */
const declared = <T extends Schema.Json>(body: T, { status }: HttpAnswer): Schema.Json => ({ status, body })

/** Decodes an answer that the provider does not know the operation: see `NotFound`. The evidence has the members of the schema. */
export const notFound = <T extends Schema.Json>(
  schema: Schema.ConstraintDecoder<T>,
  names: (body: T) => AnswerNames = none
): Decode<StatusAnswer> =>
  onBody(schema, (body, answer) => StatusAnswer.NotFound({ names: names(body), evidence: declared(body, answer) }))

/** Decodes a list without an entry, if it has a filter by the key, as `notFound`. */
export const noEntry = (member: string): Decode<StatusAnswer> => notFound(Schema.Struct({ [member]: Schema.Tuple([]) }))

/**
 * Decodes a refusal that the provider documents as final. Clients read the failure that the adapter declares for the code. The evidence has
 * the members of the schema.
 */
export const refusal = <T extends Schema.Json>(
  schema: Schema.ConstraintDecoder<T>,
  code: string | ((body: T) => string),
  names: (body: T) => AnswerNames = none
): Decode<SubmissionAnswer> =>
  onBody(schema, (body, answer) =>
    SubmissionAnswer.Rejected({
      code: typeof code === "string" ? code : code(body),
      names: names(body),
      evidence: declared(body, answer)
    }))

/**
 * Decodes an error with which the provider did nothing, and whose cause an operator can repair: the operations of the provider wait. The
 * reason is logged: it must quote no text of the provider, except for codes that the schema lists.
 */
export const repairable = <T>(
  schema: Schema.ConstraintDecoder<T>,
  reason: (body: T) => string
): Decode<never, NotSent> =>
  onBody(schema, (body) => Effect.fail(new NotSent({ reason: reason(body), isRefused: true, isLocal: true })))

/** Decodes a declared error that tells nothing about the operation. A status read does. For the reason see `repairable`. */
export const uncertain = <T>(
  schema: Schema.ConstraintDecoder<T>,
  reason: (body: T) => string
): Decode<never, Uncertain> => onBody(schema, (body) => Effect.fail(new Uncertain({ reason: reason(body) })))

/**
 * Decodes an answer whose body says for how many seconds the provider asks to send nothing, as `refusedForNow`. Without a number the header
 * `Retry-After` counts.
 */
export const refusedFor = <T>(
  schema: Schema.ConstraintDecoder<T>,
  seconds: (body: T) => number | null | undefined
): Decode<never, NotSent> =>
  onBody(schema, (body, answer) => {
    const retryAfter = seconds(body)
    return typeof retryAfter === "number"
      ? Effect.fail(
        new NotSent({ reason: `status ${answer.status}`, isRefused: true, retryAfter: Duration.seconds(retryAfter) })
      )
      : refusedForNow(answer)
  })

/** What the errors of a list say. An error is named by its code. */
export interface ErrorListOptions<T extends Schema.Json> {
  readonly schema: Schema.ConstraintDecoder<T>
  readonly codesIn: (body: T) => ReadonlyArray<string>
  /** The code of `failures` for an error by which the provider never carries the operation out. Undefined: it proves nothing. */
  readonly finalCode: (code: string) => string | undefined
  /** Whether the provider did nothing, and an operator can repair the cause. */
  readonly isRepairable: (code: string) => boolean
  readonly names: (answer: HttpAnswer) => AnswerNames
}

/**
 * Decodes a list of errors. It is a refusal only if each of them is final, because any other may come from a request of the operation that
 * paid. The evidence has the members of the schema. The codes are logged, so the schema must bound them.
 */
export const errorList = <T extends Schema.Json>(
  { codesIn, finalCode, isRepairable, names, schema }: ErrorListOptions<T>
): Decode<SubmissionAnswer, NotSent | Uncertain> =>
  onBody(schema, (body, answer): SubmissionAnswer | Effect.Effect<never, NotSent | Uncertain> => {
    const codes = codesIn(body)
    const reason = `the provider answered ${codes.join(", ")}`
    if (codes.every(isRepairable)) return Effect.fail(new NotSent({ reason, isRefused: true, isLocal: true }))
    const [code, ...others] = codes.map(finalCode)
    if (code === undefined || others.some((other) => other === undefined)) return Effect.fail(new Uncertain({ reason }))
    return SubmissionAnswer.Rejected({ code, names: names(answer), evidence: declared(body, answer) })
  })

/** Decodes a status that says that the provider takes no request of this kind here, with any body. An operator can repair the address. */
export const wrongEndpoint: Decode<never, NotSent> = ({ status }) =>
  Effect.fail(new NotSent({ reason: `status ${status}`, isRefused: true, isLocal: true }))

/** Decodes a declared status that tells nothing about the operation, with any body. A status read does. */
export const undecided: Decode<never, Uncertain> = ({ status }) =>
  Effect.fail(new Uncertain({ reason: `the provider answered ${status}` }))
