/**
 * A case of the conformance kit: one or more calls of the adapter, and the rules for them.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { type Answering, type AnswerSubject, bytesOf, type ReceivedRequest, textOf } from "./BankAnswer.ts"
import { type Behaviour, type ContractBank, contractBank, type OtherRequests } from "./ContractBank.ts"
import { check, type ContractViolation, keepsSecrets, namesAreOf, type Rule } from "./contractRules.ts"
import { type Call, type Observation, observeOne, operationIds, type Subject } from "./ContractScene.ts"

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

/** The options with their defaults. */
export interface Kit {
  readonly subject: Subject
  readonly submission: {
    readonly accepted: Answering
    readonly acknowledged?: Answering
    readonly succeeded?: Answering
    readonly refused?: { readonly answer: Answering; readonly code?: string }
    readonly duplicate?: Answering
    readonly unauthorized: Answering
    readonly unavailable?: Answering
  }
  readonly status: {
    readonly pending?: Answering
    readonly succeeded: Answering
    readonly failed?: { readonly answer: Answering; readonly code?: string }
    readonly notFound?: Answering
  } | null
  readonly references: References
  readonly keyOf: ((request: ReceivedRequest) => string | undefined) | null
  /** Where `keyOf` looks, for the message of a failure. Empty if the team set `keyOf`. */
  readonly keyHint: string
  readonly statusMethods: ReadonlyArray<string>
  readonly otherRequests: OtherRequests
  readonly secrets: ReadonlyArray<string>
  readonly invalidPayload: Schema.Json | undefined
}

/** The operation that an answer is about: the submitted one, or another one. */
export const subjectOf = (
  { references }: Kit,
  whose: "own" | "foreign",
  request: ReceivedRequest
): AnswerSubject => ({ id: operationIds[whose], reference: references[whose], request })

/** One call against a bank that behaves like this. */
export interface Scenario {
  readonly name: string
  readonly behaviour: Behaviour
  readonly call: Call
  readonly rules: ReadonlyArray<Rule>
}

/**
 * Makes a case. It runs the bank, observes, and fails with the first broken rule. If the schema of the adapter refuses the
 * payload of the kit, the case ends: `payloadCases` has a case that fails with the reason.
 */
export const caseWith = (
  kit: Kit,
  name: string,
  bank: Effect.Effect<ContractBank, never, Scope.Scope>,
  observing: (bank: ContractBank) => Effect.Effect<Observation>,
  rules: ReadonlyArray<Rule>
): ContractCase => ({
  name,
  run: Effect.scoped(Effect.flatMap(bank, observing)).pipe(
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
  caseWith(
    kit,
    name,
    contractBank(behaviour, kit.otherRequests),
    (bank) => observeOne(kit.subject, bank, call, behaviour.isSilent),
    rules
  )

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
