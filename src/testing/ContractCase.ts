/** A case of the conformance kit: one or more calls of the adapter, and the rules for them. */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { TermsOf } from "../domain/Terms.ts"
import {
  type Answering,
  type AnswerSubject,
  type Behaviour,
  bytesOf,
  type ContractBank,
  contractBank,
  type OtherRequests,
  type ReceivedRequest,
  textOf,
  type WireRequest
} from "./ContractBank.ts"
import { check, type ContractViolation, hasFailure, keepsSecrets, namesAreOf, type Rule } from "./contractRules.ts"
import { type Call, observe, operationIds, type Subject } from "./ContractScene.ts"

/** A case to run. Its name states the rule. */
export interface ContractCase {
  readonly name: string
  readonly run: Effect.Effect<void, ContractViolation>
}

/** References in the bank's form: of the submitted operation, and of another one. */
export interface References {
  readonly own: string
  readonly foreign: string
}

/** One answer, or each answer that the bank documents for the same outcome: a list has one for each state and each code. */
export type OneOrMore<A extends object> = A | ReadonlyArray<A>

/** An answer that says no; `code`, if given, is the code that the adapter must report for it. */
interface FailedAnswer {
  readonly answer: Answering
  readonly code?: string
}

/** The answers for an outcome, as a list. */
export const listOf = <A extends object>(answers: OneOrMore<A> | undefined): ReadonlyArray<A> =>
  answers === undefined ? [] : Array.isArray(answers) ? answers as ReadonlyArray<A> : [answers as A]

/** The bank's answers to a submission, as it documents them. Declare `acknowledged`, `succeeded` or both. */
export interface SubmissionAnswers {
  /** It has the operation and decides later. The adapter must return `Acknowledged`. */
  readonly acknowledged?: OneOrMore<Answering>
  /** It has carried out the operation. The adapter must return `Succeeded`. */
  readonly succeeded?: OneOrMore<Answering>
  /**
   * It refuses for ever. The adapter must return `Rejected`, with the `code` if one is given. For JSON of another shape with the same status, such as that of a proxy, the adapter must fail with `Uncertain`.
   */
  readonly refused?: OneOrMore<FailedAnswer>
  /**
   * It has the idempotency key already. The bank may have carried out the first request, so the adapter must neither return
   * `Rejected` nor fail with `NotSent`.
   */
  readonly duplicate?: OneOrMore<Answering>
  /**
   * It refuses the credentials. Default: 401 and 403 with an empty JSON object. The adapter must fail with `Uncertain`, or with `NotSent`
   * and `isRefused` and `isLocal`. In a status read they prove nothing.
   */
  readonly unauthorized?: OneOrMore<Answering>
  /**
   * It refuses for now, and documents that it did nothing, such as with 429 or 503. The adapter must fail with `NotSent` and
   * `isRefused`, or with `Uncertain`.
   */
  readonly unavailable?: OneOrMore<Answering>
}

/** The bank's answers to a status read, as it documents them. */
export interface StatusAnswers {
  /** It has not decided. The adapter must return `Proven` with `submitted`. */
  readonly pending?: OneOrMore<Answering>
  /** The adapter must return `Proven` with `succeeded`. One at least. */
  readonly succeeded: OneOrMore<Answering>
  /** The adapter must return `Proven` with `failed`, and with the `code` if one is given. */
  readonly failed?: OneOrMore<FailedAnswer>
  /** It has no such operation. The adapter must return `NotFound`, with the answer as evidence. */
  readonly notFound?: OneOrMore<Answering>
  /**
   * The adapter searches a list for its key. A list of other operations alone says nothing of theirs, so the adapter must return `NotFound`
   * or `NotProven`. Default: the answer is about one operation, and the adapter must report its names.
   */
  readonly isList?: boolean
  /** Required with `isList`: a page that has this operation alone, and is not the last one. Null: the list has no pages. */
  readonly pageBefore?: Answering | null
}

/** `found` is the first success. */
export type StatusReads = StatusAnswers & { readonly found: Answering }

/** The operation that the kit submits. */
export interface Submitted {
  /** The id of the operation: its idempotency key. */
  readonly id: string
  readonly sendBefore: Date
}

/** A payload, and the request that the bank must get for it. */
export interface ExpectedRequest {
  readonly payload: Schema.Json
  readonly request: (operation: Submitted) => WireRequest
}

export interface Kit {
  readonly subject: Subject
  readonly submission: SubmissionAnswers & { readonly accepted: Answering }
  readonly wrongPath: ReadonlyArray<Answering>
  readonly status: StatusReads | null
  /** Null: the answers have the form of `status`. */
  readonly statusByOperationId: StatusReads | null
  readonly references: References
  readonly keyOf: ((request: ReceivedRequest) => string | undefined) | null
  /** Where `keyOf` looks, for the message of a failure. Empty if the team set `keyOf`. */
  readonly keyHint: string
  readonly statusMethods: ReadonlyArray<string>
  readonly otherRequests: OtherRequests
  readonly secrets: ReadonlyArray<string>
  /** One at least. */
  readonly expects: ReadonlyArray<ExpectedRequest>
  readonly invalidPayloads: ReadonlyArray<Schema.Json>
  readonly terms: TermsOf<never> | null
  readonly otherTypes: ReadonlyArray<string>
}

/** The operation that an answer is about: the submitted one, or another one. */
export const subjectOf = (
  { references }: Kit,
  whose: "own" | "foreign",
  request: ReceivedRequest
): AnswerSubject => ({ id: operationIds[whose], reference: references[whose], request })

export interface Scenario {
  readonly name: string
  readonly behaviour: Behaviour
  readonly call: Call
  readonly rules: ReadonlyArray<Rule>
}

/**
 * Makes a case. It runs the bank, observes, and fails with the first broken rule. If the schema of the adapter refuses the
 * payload of the kit, the case ends: another case fails with the reason.
 */
export const caseWith = (
  kit: Kit,
  name: string,
  bank: Effect.Effect<ContractBank, never, Scope.Scope>,
  calls: ReadonlyArray<Call>,
  rules: ReadonlyArray<Rule>,
  isSilent = false
): ContractCase => ({
  name,
  run: Effect.scoped(Effect.flatMap(bank, (bank) => observe(kit.subject, bank, calls, isSilent))).pipe(
    Effect.flatMap((observation) => {
      if (observation.said._tag === "InvalidSample") return Effect.void
      const all = [...rules, keepsSecrets(kit.secrets, kit.subject.payload)]
      const violation = check(name, all, observation, kit.secrets)
      return violation === null ? Effect.void : Effect.fail(violation)
    })
  )
})

/** A case of one call. */
export const caseOf = (kit: Kit, { behaviour, call, name, rules }: Scenario): ContractCase =>
  caseWith(kit, name, contractBank(behaviour, kit.otherRequests), [call], rules, behaviour.isSilent)

/** The bank answers each request like this. */
export const answering = (kit: Kit, whose: "own" | "foreign", answer: Answering): Behaviour => ({
  onRequest: (socket, request) => void socket.end(bytesOf(answer(subjectOf(kit, whose, request))))
})

/** The names that an adapter must report for an answer about an operation. */
export const namesIn = (kit: Kit, whose: "own" | "foreign", answer: Answering): Rule => (observation) => {
  const [request] = observation.seen.requests
  if (request === undefined) return null
  const about = subjectOf(kit, whose, request)
  const { headers, ...body } = answer(about)
  const text = textOf(body) + Object.values(headers ?? {}).join("\n")
  return namesAreOf(about, text, subjectOf(kit, "own", request))(observation)
}

/** Makes a case for one function of the port. */
export type MakeCase = (name: string, behaviour: Behaviour, rules: ReadonlyArray<Rule>) => ContractCase

/** Each answer for an outcome, with the end of the names of its cases and the rule for its code. */
const numbered = (answers: OneOrMore<Answering | FailedAnswer> | undefined) =>
  listOf(answers).map((one, n) => ({
    answer: typeof one === "function" ? one : one.answer,
    suffix: n === 0 ? "" : `, answer ${n + 1}`,
    rules: typeof one === "function" ? [] : [hasFailure(one.code)]
  }))

/** A case for each answer that the bank documents. */
export const declaredCases = (
  kit: Kit,
  make: MakeCase,
  outcomes: ReadonlyArray<
    readonly [name: string, answers: OneOrMore<Answering | FailedAnswer> | undefined, ...rules: ReadonlyArray<Rule>]
  >
): ReadonlyArray<ContractCase> =>
  outcomes.flatMap(([name, answers, ...rules]) =>
    numbered(answers).map(({ answer, rules: more, suffix }) =>
      make(name + suffix, answering(kit, "own", answer), [...rules, ...more, namesIn(kit, "own", answer)])
    )
  )

/** The bank answers about another operation. The worker compares the names. */
export const foreignCases = (
  kit: Kit,
  make: MakeCase,
  outcomes: ReadonlyArray<readonly [what: string, answers: OneOrMore<Answering | FailedAnswer> | undefined]>
): ReadonlyArray<ContractCase> =>
  outcomes.flatMap(([what, answers]) =>
    numbered(answers).map(({ answer, suffix }) =>
      make(`the names of a foreign ${what} are copied from the answer${suffix}`, answering(kit, "foreign", answer), [
        namesIn(kit, "foreign", answer)
      ])
    )
  )
