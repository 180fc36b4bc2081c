/**
 * The cases of the conformance kit for `readStatus`.
 */
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
  subjectOf
} from "./ContractCase.ts"
import { asksForEach, onlyReads, type Rule, says } from "./contractRules.ts"
import { operationIds, reading } from "./ContractScene.ts"
import { hostileAnswers } from "./hostileAnswers.ts"

type StatusReads = NonNullable<Kit["status"]>

const read = (
  kit: Kit,
  name: string,
  behaviour: Behaviour,
  rules: ReadonlyArray<Rule>,
  call = reading(kit.subject, kit.references.own)
): ContractCase =>
  caseOf(kit, { name: `readStatus: ${name}`, behaviour, call, rules: [onlyReads(kit.statusMethods), ...rules] })

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

/** The answers that the bank documents, about the operation and about another one. */
const documentedCases = (kit: Kit, { failed, found, isList, notFound, pending, succeeded }: StatusReads) => {
  const make: MakeCase = (name, behaviour, rules) => read(kit, name, behaviour, rules)
  // From long ago: also then, nothing of it is final.
  const late: MakeCase = (name, behaviour, rules) =>
    read(kit, name, behaviour, rules, reading(kit.subject, kit.references.own, "-365 days"))
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
    read(
      kit,
      "without a reference it reads by the id, or proves nothing",
      answering(kit, "own", found),
      [says("Proven", "NotFound", "NotProven"), namesIn(kit, "own", found)],
      reading(kit.subject, null)
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
    ),
    ...isList === true
      ? [read(kit, "a list of another operation alone proves nothing", answering(kit, "foreign", found), [
        says("NotFound", "NotProven")
      ])]
      : foreignCases(kit, make, [["pending operation", pending], ["success", succeeded], ["failure", failed]])
  ]
}

const hostileCases = (kit: Kit, { found }: StatusReads): ReadonlyArray<ContractCase> => [
  ...hostileAnswers((request) => found(subjectOf(kit, "own", request))).map(({ behaviour, rules, what }) =>
    read(kit, `a bank that ${what} proves nothing`, behaviour, [...rules ?? [], provesNothing])
  ),
  caseWith(
    kit,
    "readStatus: a bank that refuses the connection proves nothing",
    closedBank(kit.otherRequests),
    [reading(kit.subject, kit.references.own)],
    [provesNothing]
  )
]

const withoutReads = (kit: Kit): ReadonlyArray<ContractCase> => [
  read(kit, "a bank without status reads proves nothing", { onRequest: (socket) => void socket.end() }, [
    provesNothing
  ])
]

/** All cases for `readStatus`. */
export const statusCases = (kit: Kit): ReadonlyArray<ContractCase> =>
  kit.status === null
    ? withoutReads(kit)
    : [...documentedCases(kit, kit.status), ...hostileCases(kit, kit.status)]
