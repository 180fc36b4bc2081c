/** The cases of the conformance kit for `readStatus`. */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { readKind } from "../submission/providers/ProviderPromises.ts"
import { type Answering, type Behaviour, bytesOf, closedBank, contractBank } from "./ContractBank.ts"
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

const isObject = (json: Schema.Json): json is Schema.JsonObject =>
  typeof json === "object" && json !== null && !Array.isArray(json)

/** The list that names one operation, with the entries of another one before and after. What both have alike stays. */
const amongOthers = (own: Schema.Json, other: Schema.Json): Schema.Json => {
  if (JSON.stringify(own) === JSON.stringify(other)) return own
  if (Array.isArray(own) && Array.isArray(other)) return [...other, ...own, ...other]
  if (!isObject(own) || !isObject(other)) return own
  return Object.fromEntries(Object.entries(own).map(([name, value]) => [name, amongOthers(value, other[name] ?? null)]))
}

/** The bank answers the first request, and the same one again, with a page of another operation, and the others with the own one. */
const bankOfPages = (kit: Kit, found: Answering, pageBefore: Answering) =>
  Effect.suspend(() => {
    let first: string | undefined
    const onRequest: Behaviour["onRequest"] = (socket, request) => {
      const asked = request.path + request.body
      first ??= asked
      const isFirst = asked === first
      socket.end(bytesOf((isFirst ? pageBefore : found)(subjectOf(kit, isFirst ? "foreign" : "own", request))))
    }
    return contractBank({ onRequest }, kit.otherRequests)
  })

/** The operation is one of many: anywhere in a page, or on a later one. */
const listCases = (kit: Kit, form: Form): ReadonlyArray<ContractCase> => {
  const { found, pageBefore } = form.reads
  const isFound = [isProven("succeeded"), namesIn(kit, "own", found)]
  const among: Answering = (own) => {
    const answer = found(own)
    const other = found(subjectOf(kit, "foreign", own.request))
    return answer.body === undefined ? answer : { ...answer, body: amongOthers(answer.body, other.body ?? null) }
  }
  return [
    read(kit, form, "a list of another operation alone proves nothing", answering(kit, "foreign", found), [
      says("NotFound", "NotProven")
    ]),
    read(kit, form, "an operation among others is Proven as succeeded", answering(kit, "own", among), isFound),
    ...pageBefore === null || pageBefore === undefined ? [] : [
      caseWith(
        kit,
        `${form.prefix}an operation on the next page is Proven as succeeded`,
        bankOfPages(kit, found, pageBefore),
        [reading(kit.subject, form.reference)],
        [onlyReads(kit.statusMethods), ...isFound]
      ),
      read(kit, form, "pages of others without a last one prove nothing", answering(kit, "foreign", pageBefore), [
        provesNothing
      ])
    ]
  ]
}

/** The answers that the bank documents, about the operation and about another one. */
const documentedCases = (kit: Kit, form: Form) => {
  const { failed, isList, notFound, pending, succeeded } = form.reads
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
      ? listCases(kit, form)
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
