/**
 * The cases of the conformance kit for `readStatus`.
 */
import type * as Duration from "effect/Duration"
import { readKind } from "../submission/providers/ProviderPromises.ts"
import { type Behaviour, closedBank, contractBank } from "./ContractBank.ts"
import {
  answering,
  caseOf,
  caseWith,
  type ContractCase,
  declaredCases,
  foreignCases,
  type Kit,
  type MakeCase,
  namesIn,
  type StatusReads,
  subjectOf
} from "./ContractCase.ts"
import { asksForEach, onlyReads, type Rule, says } from "./contractRules.ts"
import { operationIds, reading } from "./ContractScene.ts"
import { hostileAnswers } from "./hostileAnswers.ts"

/** The reads of one form: by the bank's reference, or by the operation's id alone. */
interface Form {
  readonly reads: StatusReads
  readonly reference: string | null
  /** What the names of its cases begin with. */
  readonly prefix: string
}

const read = (
  kit: Kit,
  { prefix, reference }: Omit<Form, "reads">,
  name: string,
  behaviour: Behaviour,
  rules: ReadonlyArray<Rule>,
  sendBefore?: Duration.Input
): ContractCase =>
  caseOf(kit, {
    name: `${prefix}${name}`,
    behaviour,
    call: reading(kit.subject, reference, sendBefore),
    rules: [onlyReads(kit.statusMethods), ...rules]
  })

const isProven = (state: "submitted" | "succeeded" | "failed"): Rule => ({ said }) =>
  said._tag === "Proven" && said.state === state ? null : `The adapter must say Proven with ${state} here`

const isNotFound: Rule = ({ said }) =>
  said._tag === "NotFound" && said.evidence !== null
    ? null
    : "The adapter must say NotFound here, with the answer as evidence: its promises decide what that proves"

/** A proxy may have answered. */
const provesNothing: Rule = ({ said }) =>
  said._tag === "NotProven" || said._tag === "NoResult" || said._tag === "NotFound" && said.evidence === null
    ? null
    : "The adapter must say NotProven here, or NotFound without evidence"

/** What the adapter finds by the operation's id, it must find also before it knows the bank's reference. */
const keepsPromise: Rule = ({ adapter: { promises = {} }, said }) =>
  readKind(promises, null) !== "direct" || said._tag === "Proven"
    ? null
    : "The adapter promises a read by the operation's id, so it must say Proven here. If the bank answers that read in another form, "
      + "declare it in answers.statusByOperationId"

/** The answers that the bank documents, about the operation and about another one. */
const documentedCases = (kit: Kit, form: Form) => {
  const { failed, found, isList, notFound, pending, succeeded } = form.reads
  const make: MakeCase = (name, behaviour, rules) => read(kit, form, name, behaviour, rules)
  // From long ago: also then, nothing of it is final.
  const late: MakeCase = (name, behaviour, rules) => read(kit, form, name, behaviour, rules, "-365 days")
  return [
    ...declaredCases(kit, make, [
      ["a pending operation is Proven as submitted", pending, isProven("submitted")],
      ["a success is Proven as succeeded", succeeded, isProven("succeeded")],
      [
        "a failure is Proven as failed, with a declared code",
        failed,
        isProven("failed")
      ],
      ["an unknown operation is NotFound", notFound, isNotFound]
    ]),
    ...declaredCases(kit, late, [
      ["refused credentials prove nothing", kit.submission.unauthorized, provesNothing],
      ["a wrong path, such as the 404 of a proxy, proves nothing, however late", kit.wrongPath, provesNothing]
    ]),
    ...isList === true
      ? [read(kit, form, "a list of another operation alone proves nothing", answering(kit, "foreign", found), [
        says("NotFound", "NotProven")
      ])]
      : foreignCases(kit, make, [["pending operation", pending], ["success", succeeded], ["failure", failed]])
  ]
}

/** Before the bank's own reference is known. */
const casesWithoutReference = (kit: Kit, { found, isList }: StatusReads) => [
  read(
    kit,
    { prefix: "readStatus: ", reference: null },
    "without a reference it reads by the id, or proves nothing",
    answering(kit, "own", found),
    [says("Proven", "NotFound", "NotProven"), keepsPromise, namesIn(kit, "own", found)]
  ),
  caseWith(
    kit,
    "readStatus: without a reference it asks for each operation by its id",
    contractBank(answering(kit, "own", found), kit.otherRequests),
    [
      ...[operationIds.own, operationIds.foreign].map((id) => reading(kit.subject, null, "1 hour", id)),
      reading(kit.subject, kit.references.own)
    ],
    [
      onlyReads(kit.statusMethods),
      asksForEach(Object.values(operationIds), kit.references.own, isList === true, kit.keyOf)
    ]
  )
]

const hostileCases = (kit: Kit, form: Form): ReadonlyArray<ContractCase> => [
  ...hostileAnswers((request) => form.reads.found(subjectOf(kit, "own", request))).map(({ behaviour, rules, what }) =>
    read(kit, form, `a bank that ${what} proves nothing`, behaviour, [...rules ?? [], provesNothing])
  ),
  caseWith(
    kit,
    `${form.prefix}a bank that refuses the connection proves nothing`,
    closedBank(kit.otherRequests),
    [reading(kit.subject, form.reference)],
    [provesNothing]
  )
]

/** All cases for `readStatus`. */
export const statusCases = (kit: Kit): ReadonlyArray<ContractCase> => {
  const { references, status, statusByOperationId } = kit
  const prefix = "readStatus: "
  if (status === null) {
    return [
      read(kit, { prefix, reference: references.own }, "a bank without status reads proves nothing", {
        onRequest: (socket) => void socket.end()
      }, [provesNothing])
    ]
  }
  const forms: Array<Form> = [{ reads: status, reference: references.own, prefix }]
  if (statusByOperationId !== null) {
    forms.push({ reads: statusByOperationId, reference: null, prefix: "readStatus by the operation's id: " })
  }
  return [
    ...forms.flatMap((form) => [...documentedCases(kit, form), ...hostileCases(kit, form)]),
    ...casesWithoutReference(kit, statusByOperationId ?? status)
  ]
}
