/**
 * The conformance kit for provider adapters. It runs an adapter against a local bank, and checks the rules of
 * `ProviderAdapter`. The bank loses answers, cuts them off, redirects, answers for other operations and so on.
 *
 * The room `testing`: what applications test their adapters with. Read this file first.
 *
 * The kit needs no test runner of its own. Give each case to yours:
 *
 *     for (const { name, run } of ProviderContract.cases(options)) it(name, () => Effect.runPromise(run))
 *
 * `it.effect` of `@effect/vitest` runs it, too, and prints a failure twice. Each case takes milliseconds: the kit runs the adapter under a clock of its own, and moves it. Cases may run at the same time. The bank listens on a free port
 * of 127.0.0.1, so a case needs Node.
 */
import * as Duration from "effect/Duration"
import type * as HttpClient from "effect/http/HttpClient"
import type * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import { isTerms, termsMembers, type TermsOf } from "../domain/Terms.ts"
import * as ProviderHttpClient from "../node/http/ProviderHttpClient.ts"
import type { ProviderAdapter } from "../submission/providers/ProviderAdapter.ts"
import type { Answering, AnswerSubject, BankAnswer, ReceivedRequest } from "./ContractBank.ts"
import {
  type ContractCase,
  type ExpectedRequest,
  type Kit,
  listOf,
  type OneOrMore,
  type References,
  type StatusAnswers,
  type StatusReads,
  type SubmissionAnswers,
  type Submitted
} from "./ContractCase.ts"
import { ContractViolation } from "./contractRules.ts"
import { operationIds } from "./ContractScene.ts"
import { statusCases } from "./statusCases.ts"
import { payloadCases, submissionCases } from "./submissionCases.ts"

export { type AnswerSubject, type ContractCase, ContractViolation, type Submitted }

/** The adapter under test, and what its bank answers. */
export interface ProviderContractOptions {
  /** The adapter for a bank at this base URL (`http://127.0.0.1:PORT`, without a trailing slash). */
  readonly adapter: (baseUrl: string) => Layer.Layer<ProviderAdapter, unknown, HttpClient.HttpClient>
  /** The HTTP client for the adapter. Default: `ProviderHttpClient.layer()`. */
  readonly client?: Layer.Layer<HttpClient.HttpClient>
  /** The operation to submit: its type, and the owner and provider connection if your credentials depend on them. */
  readonly operation: {
    readonly type: string
    readonly resource_owner?: string
    readonly provider_connection_id?: string
  }
  /**
   * Payloads that the adapter can send, each with the request that the bank must get, byte for byte. Write the requests by hand, from
   * the documentation of the bank. The other cases submit the first payload.
   *
   * For each member of `terms` two payloads differ in it alone, and so do their requests. If the bank takes one value only, such as one
   * currency, the second payload stands in `invalidPayloads`. The same holds for an amount such as 1.15, which floating point changes.
   * If the schema of the adapter accepts a currency without decimals, such as JPY, one payload is in such a currency.
   */
  readonly expects: ReadonlyArray<ExpectedRequest>
  /** The `terms` of the type of operation. Null: the type declares none. */
  readonly terms: TermsOf<never> | null
  /** Payloads that the adapter cannot send: its declared schema (`payloads`) must refuse each of them. Default: none. */
  readonly invalidPayloads?: ReadonlyArray<Schema.Json>
  /** Types that the adapter declares beside `operation.type`, and that have cases of their own. Default: none. */
  readonly otherTypes?: ReadonlyArray<string>
  readonly answers: {
    readonly submission: SubmissionAnswers
    /** Absent if the bank has no status reads: then the adapter must return `NotProven`. */
    readonly status?: StatusAnswers
    /**
     * The answers to a status read by the operation's id, before the bank's own reference is known, if they have another form than
     * `status`: such as a list, where a read by reference answers one transfer. Default: as `status`.
     */
    readonly statusByOperationId?: StatusAnswers
    /**
     * How the bank answers a path that it does not have, as with a wrong base URL. The adapter must neither refuse nor prove anything. The
     * kit adds 404 with a page, with an empty JSON object, and with a `message`.
     */
    readonly wrongPath?: OneOrMore<Answering>
  }
  /** References in the bank's form, for the submitted operation and another one. Default: `bank-reference-1` and `-2`. */
  readonly references?: References
  /**
   * Finds the idempotency key in a submission. Names of headers are in lower case: `headers["x-request-key"]`. Default: the
   * header `Idempotency-Key`. Null if the bank takes none.
   */
  readonly idempotencyKey?: ((request: ReceivedRequest) => string | undefined) | null
  /** Methods that a status read may use. Default: `GET`. */
  readonly statusMethods?: ReadonlyArray<string>
  /** Answers requests that are neither submissions nor status reads, such as one for an access token. */
  readonly otherRequests?: (request: ReceivedRequest) => BankAnswer | undefined
  /** Credentials that no reason may contain. The kit adds those that it sees in request headers such as `Authorization`. */
  readonly secrets?: ReadonlyArray<string>
  /**
   * Real time after which the kit interrupts a call whose deadline does not follow Effect's clock. Then the call counts as
   * uncertain, as with a worker. Default: 4 seconds. Set it to more than the adapter's own deadline, and the time-out of your
   * test runner to more than that.
   */
  readonly patience?: Duration.Input
}

const unauthorized: ReadonlyArray<Answering> = [401, 403].map((status) => () => ({ status, body: {} }))

/** What servers and proxies answer to every path that they do not have. */
const wrongPath: ReadonlyArray<Answering> = [
  () => ({ status: 404, text: "<title>Not found</title>" }),
  () => ({ status: 404, body: {} }),
  () => ({ status: 404, body: { message: "Not Found" } })
]

const keyHint =
  ". The kit looked in the header Idempotency-Key; if the bank takes the key elsewhere, set idempotencyKey"

/** Whether floating point changes the amount in cents: 1.15 × 100 is 114.99999999999999. */
const breaksFloats = (amount: string) => /\.\d\d$/u.test(amount) && !Number.isInteger(Number(amount) * 100)

/** Throws unless each member of the terms reaches the bank: see `expects` and `invalidPayloads`. */
const checkTerms = ({ expects, invalidPayloads = [], terms }: ProviderContractOptions) => {
  if (terms === null) return
  const sent = expects.map(({ payload, request }) => ({
    terms: terms(payload as never),
    request: JSON.stringify(request({ id: operationIds.own, sendBefore: new Date(0) }))
  }))
  const invalid = sent.find((one) => !isTerms(one.terms))
  if (invalid !== undefined) {
    throw new TypeError(`a payload of expects has invalid terms: ${JSON.stringify(invalid.terms)}`)
  }
  const others = [...sent, ...invalidPayloads.map((payload) => ({ terms: terms(payload as never), request: null }))]
  if (!others.some((one) => breaksFloats(one.terms.amount))) {
    throw new TypeError(
      "declare in expects a payload with an amount that floating point changes, such as 1.15. If the bank takes none, declare the payload "
        + "in invalidPayloads"
    )
  }
  for (const member of termsMembers) {
    const pairs = sent.flatMap((one) =>
      others.filter((other) =>
        termsMembers.every((name) => (one.terms[name] === other.terms[name]) === (name !== member))
      ).map((other) => one.request !== other.request)
    )
    if (pairs.length === 0) {
      throw new TypeError(
        `declare two payloads in expects whose terms differ in the ${member} alone. If the bank takes one ${member} only, declare the `
          + "other payload in invalidPayloads"
      )
    }
    if (pairs.includes(false)) {
      throw new TypeError(
        `expects has the same request for two payloads that differ in the ${member}: it must reach the bank`
      )
    }
  }
}

const readsOf = (name: string, status: StatusAnswers | undefined): StatusReads | null => {
  if (status === undefined) return null
  const [found] = listOf(status.succeeded)
  if (found === undefined) throw new TypeError(`declare answers.${name}.succeeded`)
  if (status.isList === true && status.pageBefore === undefined) {
    throw new TypeError(`declare answers.${name}.pageBefore, or null if the list has no pages`)
  }
  return { ...status, found }
}

const kitOf = (options: ProviderContractOptions): Kit => {
  const { answers: { status, statusByOperationId, submission }, expects: [first], idempotencyKey } = options
  if (first === undefined) throw new TypeError("declare in expects a payload, and the request that the bank must get")
  checkTerms(options)
  const [accepted] = [...listOf(submission.succeeded), ...listOf(submission.acknowledged)]
  if (accepted === undefined) {
    throw new TypeError("declare answers.submission.acknowledged or answers.submission.succeeded")
  }
  return {
    subject: {
      adapter: options.adapter,
      client: options.client ?? ProviderHttpClient.layer(),
      operation: options.operation,
      payload: first.payload,
      patience: Duration.toMillis(options.patience ?? "4 seconds")
    },
    submission: { ...submission, accepted, unauthorized: submission.unauthorized ?? unauthorized },
    status: readsOf("status", status),
    statusByOperationId: readsOf("statusByOperationId", statusByOperationId),
    wrongPath: [...wrongPath, ...listOf(options.answers.wrongPath)],
    references: options.references ?? { own: "bank-reference-1", foreign: "bank-reference-2" },
    keyOf: idempotencyKey === null ? null : idempotencyKey ?? (({ headers }) => headers["idempotency-key"]),
    keyHint: idempotencyKey === undefined ? keyHint : "",
    statusMethods: options.statusMethods ?? ["GET"],
    otherRequests: options.otherRequests ?? (() => undefined),
    secrets: options.secrets ?? [],
    expects: options.expects,
    invalidPayloads: options.invalidPayloads ?? [],
    terms: options.terms,
    otherTypes: options.otherTypes ?? []
  }
}

/**
 * The cases for an adapter, for your test runner. A case fails with `ContractViolation`, and dies if the layer of the adapter
 * fails. Throws a `TypeError` if the options declare no answer that accepts a submission, no expected request, no payloads that
 * show each member of the terms, or no amount that floating point changes.
 */
export const cases = (options: ProviderContractOptions): ReadonlyArray<ContractCase> => {
  const kit = kitOf(options)
  return [...submissionCases(kit), ...payloadCases(kit), ...statusCases(kit)]
}
