/**
 * The rules of the conformance kit. A rule reads what an adapter said and what the bank saw, and returns the sentence that is
 * broken, or null.
 */
import * as Data from "effect/Data"
import { isGatewayFailureCode } from "../domain/GatewayFailures.ts"
import { asksFor, readKind } from "../submission/providers/ProviderPromises.ts"
import type { AnswerSubject, ReceivedRequest, WireRequest } from "./ContractBank.ts"
import type { Observation, Said } from "./ContractScene.ts"

/** An adapter broke a rule of the contract. The message says which, what the adapter said, and what the bank saw. */
export class ContractViolation extends Data.TaggedError("ContractViolation")<{ readonly message: string }> {
  constructor(options: { readonly message: string }) {
    super(options)
    // Frames of the kit and of Effect say nothing of the adapter.
    Object.defineProperty(this, "stack", { value: `${this.name}: ${this.message}`, configurable: true, writable: true })
  }
}

/** Returns the broken rule, or null. */
export type Rule = (observation: Observation) => string | null

const among = <T extends Said["_tag"]>(said: Said, tags: ReadonlyArray<T>): boolean =>
  (tags as ReadonlyArray<string>).includes(said._tag)

/** `NoResult` counts as `Uncertain` and `NotProven`: a worker and a reconciler treat it so. */
export const says = (...tags: ReadonlyArray<Said["_tag"]>): Rule => ({ said }) =>
  among(said, tags) || said._tag === "NoResult" && among(said, ["NoResult", ...tags]) && isOpen(tags)
    ? null
    : `The adapter must say ${tags.join(" or ")} here`

const isOpen = (tags: ReadonlyArray<Said["_tag"]>) => tags.includes("Uncertain") || tags.includes("NotProven")

export const atMostOnce: Rule = ({ seen }) =>
  seen.requests.length <= 1 ? null : "At most one request of a submission may reach the bank: the adapter sent it again"

export const sendsNothing: Rule = ({ seen }) =>
  seen.requests.length === 0 && seen.bytes === 0 ? null : "Nothing may be sent here"

/** `NotSent` by default claims that no byte left. If the bank has one, only its documented refusal allows `NotSent`. */
export const notSentIsTrue: Rule = ({ said, seen }) =>
  said._tag === "NotSent" && seen.bytes > 0 && said.isRefused !== true
    ? "NotSent without isRefused says that no byte left, but the bank received some"
    : null

/** A wrong key or path, which an operator repairs, must not end an operation. */
export const operatorCanRepair: Rule = ({ said }) =>
  said._tag === "NotSent" && (said.isLocal !== true || said.isPermanent === true)
    ? "An operator can repair wrong credentials or a wrong path: NotSent needs isLocal here, and not isPermanent"
    : null

/** A proxy sends the status of a refusal as well, with a body of its own. */
export const bodyDecides: Rule = ({ said }) =>
  said._tag === "Rejected"
    ? "A 4xx alone is no refusal, because proxies send it as well: declare the members of the bank's refusal"
    : null

export const mayBeTriedAgain: Rule = ({ said }) =>
  said._tag === "NotSent" && said.isPermanent === true
    ? "isPermanent ends the operation, although a later attempt may succeed"
    : null

/** The adapter only reads: with these methods, and never with the request of a submission. */
export const onlyReads = (methods: ReadonlyArray<string>): Rule => ({ seen }) =>
  seen.requests.every(({ method }) => methods.includes(method))
    ? null
    : `A status read may only send ${methods.join(" or ")}, because it must change nothing`

/** `keyOf` is made for submissions, and may fail on a read. */
const keyIn = (request: ReceivedRequest, keyOf: ((request: ReceivedRequest) => string | undefined) | null): string => {
  try {
    return keyOf?.(request) ?? ""
  } catch {
    return ""
  }
}

/**
 * A status read by null finds nothing, and "not found" may end an operation. `ids` are those of the operations that were read, and then one
 * was by `reference`.
 */
export const asksForEach = (
  ids: ReadonlyArray<string>,
  reference: string,
  isList: boolean,
  keyOf: ((request: ReceivedRequest) => string | undefined) | null
): Rule =>
({ adapter: { promises = {}, readsUnfiltered = false }, seen: { requests } }) => {
  if (readKind(promises, null) !== "direct") return null
  if (readsUnfiltered) {
    return isList
      ? null
      : "An adapter that searches a list has cases for that: set isList in answers.status"
  }
  const last = requests.at(-1)
  const byReference = last && { path: last.path, reference }
  const asks = (id: string) => (request: ReceivedRequest) =>
    asksFor(id, { ...request, key: keyIn(request, keyOf), byReference })
  return ids.every((id) => requests.slice(0, -1).some(asks(id)))
    ? null
    : "Without a reference the status request must contain the operation's id, in path, query, body or the header of the idempotency "
      + "key, and no empty place for the reference. If the bank finds payments only by its own reference, promise readByOperationId \"no\""
}

export const followsNoRedirect = (target: string): Rule => ({ seen }) =>
  seen.requests.every(({ path }) => path !== target) ? null : "The adapter must not follow a redirect"

/** Bytes that a bank may send before the adapter closes the connection. */
export const longestBody = 64 * 1024 * 1024

export const limitsBody: Rule = ({ seen }) =>
  seen.sent < longestBody ? null : "The adapter must limit the size of an answer: it read 64 MiB"

/** The key of each request is the id of its operation, in order. */
export const keysAre = (
  keyOf: (request: ReceivedRequest) => string | undefined,
  ids: ReadonlyArray<string>,
  hint: string
): Rule =>
({ seen }) => {
  const keys = seen.requests.map((request) => keyOf(request) ?? "none")
  return keys.join() === ids.join()
    ? null
    : `The idempotency key must be the operation's id: expected ${ids.join(", ")}, and the bank saw ${
      keys.join(", ")
    }${hint}`
}

/** The bank gets exactly this request. `expected` is called after the submission. */
export const sendsExactly = (expected: () => WireRequest): Rule => ({ seen }) => {
  const { body, headers = {}, method = "POST", path } = expected()
  const [request] = seen.requests
  if (request === undefined) return "The bank must get a request here"
  const parts = [
    ["method", method, request.method],
    ["path", path, request.path],
    ...Object.entries(headers).map(([name, value]) => [`header ${name}`, value, request.headers[name] ?? "none"]),
    ["body", body, request.body]
  ] as const
  const wrong = parts.filter(([, wanted, got]) => wanted !== got)
  return wrong.length === 0
    ? null
    : `The bank must get exactly the expected request: ${
      wrong.map(([name, wanted, got]) => `the ${name} must be ${wanted}, and the bank got ${got}`).join("; ")
    }`
}

/** The names are those of the answer. The adapter must report each name that the text of the answer contains. */
export const namesAreOf =
  (answered: AnswerSubject, text: string, own: { readonly id: string; readonly reference: string }): Rule =>
  ({ said }) => {
    if (!("names" in said)) return null
    const { operation_id, reference } = said.names
    const members = [
      ["operation_id", operation_id, answered.id, own.id],
      ["reference", reference, answered.reference, own.reference]
    ] as const
    for (const [member, named, expected, requested] of members) {
      if (named === null && text.includes(expected)) {
        return `names.${member} must be copied from the answer, which contains it: the adapter reported null`
      }
      if (named === null || named === expected) continue
      return named === requested && requested !== expected
        ? `names.${member} must be copied from the answer, never from the request: the answer is about ${expected}`
        : `names.${member} must be the one in the answer, ${expected}: the adapter reported ${named}`
    }
    return null
  }

export const hasFailure = (code: string | undefined): Rule => ({ said }) => {
  if (!("code" in said)) return null
  // It needs no declaration: it says only that the provider refused.
  if (said.code !== "provider_rejected") {
    if (isGatewayFailureCode(said.code)) return `The code ${said.code} is reserved: only the gateway may give it`
    if (said.isDeclared !== true) {
      return "A refusal needs a common code, or one that the adapter declares in `failures`, with a message. Clients read both"
    }
  }
  return code === undefined || said.code === code ? null : `The code must be ${code}: the adapter reported ${said.code}`
}

/** Each text of at least eight characters in a JSON value. */
const textsOf = (value: unknown): ReadonlyArray<string> =>
  typeof value === "string"
    ? value.length >= 8 ? [value] : []
    : typeof value === "object" && value !== null
    ? Object.values(value).flatMap(textsOf)
    : []

/** Headers that carry credentials. The value after a scheme such as `Bearer` is the credential. */
const credentialHeader = /^(?:authorization|cookie|x-api-key|api-key|x-auth-token|proxy-authorization)$/u

const credentialsIn = (requests: ReadonlyArray<ReceivedRequest>): ReadonlyArray<string> =>
  requests.flatMap(({ headers }) =>
    Object.entries(headers).flatMap(([name, value]) =>
      credentialHeader.test(name) ? [value, value.split(" ").at(-1)!].filter(({ length }) => length >= 4) : []
    )
  )

const reasonOf = (said: Said): string => "reason" in said ? said.reason + ("detail" in said ? said.detail : "") : ""

/** Reasons are logged; names and evidence are kept. */
export const keepsSecrets = (secrets: ReadonlyArray<string>, payload: unknown): Rule => ({ said, seen }) => {
  const text = JSON.stringify(said)
  if ([...secrets, ...credentialsIn(seen.requests)].some((secret) => text.includes(secret))) {
    return "Reasons, details, names and evidence must contain no credential"
  }
  return textsOf(payload).some((part) => reasonOf(said).includes(part))
    ? "Reasons and details are logged, and must contain no part of the payload"
    : null
}

const shown = (text: string): string => text.length > 400 ? `${text.slice(0, 400)} …` : text

const redact = (text: string, secrets: ReadonlyArray<string>): string =>
  secrets.reduce((result, secret) => result.replaceAll(secret, "<credential>"), text)

/** Fails with the first broken rule. */
export const check = (
  name: string,
  rules: ReadonlyArray<Rule>,
  observation: Observation,
  secrets: ReadonlyArray<string>
): ContractViolation | null => {
  const broken = rules.map((rule) => rule(observation)).find((text) => text !== null)
  if (broken === undefined) return null
  const { said, seen } = observation
  const { _tag, ...members } = said
  const requests = seen.requests.map(({ method, path }) => `${method} ${path}`).join(", ")
  const hidden = [...secrets, ...credentialsIn(seen.requests)].toSorted((one, other) => other.length - one.length)
  return new ContractViolation({
    message: [
      name,
      `  rule: ${broken}`,
      `  the adapter said: ${_tag} ${shown(redact(JSON.stringify(members), hidden))}`,
      `  the bank saw: ${seen.requests.length} requests, ${seen.bytes} bytes${
        requests === "" ? "" : ` (${shown(requests)})`
      }`
    ].join("\n")
  })
}
