/**
 * A case of the conformance kit: one or more calls of the adapter, and the rules for them.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
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
import { check, type ContractViolation, keepsSecrets, namesAreOf, type Rule } from "./contractRules.ts"
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

/** The bank's answers to a submission, as it documents them. Declare `acknowledged`, `succeeded` or both. */
export interface SubmissionAnswers {
  /** It has the operation and decides later. The adapter must return `Acknowledged`. */
  readonly acknowledged?: Answering
  /** It has carried out the operation. The adapter must return `Succeeded`. */
  readonly succeeded?: Answering
  /**
   * It refuses for ever. The adapter must return `Rejected`; `code`, if given, is the code that it must report. For JSON of
   * another shape with the same status, such as that of a proxy, the adapter must fail with `Uncertain`.
   */
  readonly refused?: { readonly answer: Answering; readonly code?: string }
  /**
   * It has the idempotency key already. The bank may have carried out the first request, so the adapter must neither return
   * `Rejected` nor fail with `NotSent`.
   */
  readonly duplicate?: Answering
  /**
   * It refuses the credentials. Default: 401 with an empty JSON object. The adapter must fail with `Uncertain`, or with `NotSent` and
   * `isRefused` and `isLocal`.
   */
  readonly unauthorized?: Answering
  /**
   * It refuses for now, and documents that it did nothing, such as with 429 or 503. The adapter must fail with `NotSent` and
   * `isRefused`, or with `Uncertain`.
   */
  readonly unavailable?: Answering
}

/** The bank's answers to a status read, as it documents them. */
export interface StatusAnswers {
  /** It has not decided. The adapter must return `Proven` with `submitted`. */
  readonly pending?: Answering
  /** The adapter must return `Proven` with `succeeded`. */
  readonly succeeded: Answering
  /** The adapter must return `Proven` with `failed`; `code`, if given, is the code that it must report. */
  readonly failed?: { readonly answer: Answering; readonly code?: string }
  /** It has no such operation. The adapter must return `NotFound`, with the answer as evidence. */
  readonly notFound?: Answering
}

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
  readonly submission: SubmissionAnswers & { readonly accepted: Answering; readonly unauthorized: Answering }
  readonly status: StatusAnswers | null
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

/** A case for each answer that the bank documents. */
export const declaredCases = (
  kit: Kit,
  make: MakeCase,
  answers: ReadonlyArray<readonly [name: string, answer: Answering | undefined, ...rules: ReadonlyArray<Rule>]>
): ReadonlyArray<ContractCase> =>
  answers.flatMap(([name, answer, ...rules]) =>
    answer === undefined
      ? []
      : [make(name, answering(kit, "own", answer), [...rules, namesIn(kit, "own", answer)])]
  )

/** The bank answers about another operation. The worker compares the names. */
export const foreignCases = (
  kit: Kit,
  make: MakeCase,
  answers: ReadonlyArray<readonly [what: string, answer: Answering | undefined]>
): ReadonlyArray<ContractCase> =>
  answers.flatMap(([what, answer]) =>
    answer === undefined ? [] : [
      make(`the names of a foreign ${what} are copied from the answer`, answering(kit, "foreign", answer), [
        namesIn(kit, "foreign", answer)
      ])
    ]
  )
