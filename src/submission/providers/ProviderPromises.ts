/**
 * What a provider promises, as its adapter declares it, and the rules that follow. Worker and reconciler ask only these functions, so no
 * adapter has a rule of its own.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import {
  longestSendWithin,
  type ProviderOperation,
  type ProviderReference,
  type Recording
} from "../../domain/Submission.ts"
import type { ClockReading } from "../elapsed.ts"
import type { SubmissionPolicyShape } from "../SubmissionPolicy.ts"

/** What the provider documents. Declare no more than that. Each default is the case in which the provider promises nothing. */
export interface ProviderPromises {
  /** How long the provider knows an idempotency key, at least. Default: `none`. */
  readonly keys?: "none" | "for_ever" | Duration.Input
  /**
   * Whether a status read finds an operation by its id, which was sent as the idempotency key, and so without the provider's reference.
   *
   * - `no`, the default: without the reference there is no read. The operation waits for the reference or for a person.
   * - `yes`, or `{ lag }`: a payment is found at the latest so long after it was received. The first read waits for so long.
   * - `indirectly`: the read asks about something else, such as the consent of the payment, and `readStatus` gets the payload.
   *   Its answer proves a result only if it names the provider's reference.
   */
  readonly readByOperationId?: "no" | "yes" | "indirectly" | { readonly lag: Duration.Input }
  /**
   * What the provider does with a request that arrives late.
   *
   * - `accepted`, the default: it may carry out a request after any time.
   * - `{ header }`: it refuses a request after `send_before`. `HttpProvider` sends that in this header, in RFC 3339.
   * - `refused`: the same, and the adapter puts `send_before` into the request.
   * - `refused_as_stated`: an answer `NotFound` states from when on the provider refuses the request (`refusedFrom`).
   */
  readonly lateRequests?: "accepted" | "refused" | "refused_as_stated" | { readonly header: string }
  /**
   * How long after the last instant at which the provider takes a request a payment may still be invisible. If a read that begins later
   * finds none, the provider never received it. Add the greatest difference between the clocks of provider and database. Default:
   * "not found" proves nothing.
   */
  readonly notFoundIsFinalAfter?: Duration.Input
  /**
   * For how long a success may be reversed, such as by a return of the receiving bank. Until then its status is read again. A read that
   * proves `failed` is recorded as a reversal, and changes no state. With `byType`, a success of any other type is final. Default: each
   * success is final.
   */
  readonly reversibleFor?: Duration.Input | { readonly byType: Readonly<Record<string, Duration.Input>> }
  /** The question that a person asks the provider if reads cannot settle the operation. It contains no credential. */
  readonly question?: (operation: ProviderOperation) => string
}

/** What a rule of the promises asks of a `DueRead`. */
interface ReadFacts {
  readonly operation: Pick<ProviderOperation, "send_before">
  readonly reference: ProviderReference | null
  readonly created_at: DateTime.Utc
  readonly taken_at: DateTime.Utc
  /** Before the take, by the clock of the reader. */
  readonly askedAt: Pick<ClockReading, "wall">
}

const lagOf = ({ readByOperationId }: ProviderPromises): Duration.Duration =>
  typeof readByOperationId === "object" ? Duration.fromInputUnsafe(readByOperationId.lag) : Duration.zero

/** How long a read by the key finds a payment, if that ends. An indirect read does not look for the key. */
const lifetimeOf = ({ keys, readByOperationId }: ProviderPromises): Duration.Duration | null =>
  keys === undefined || keys === "none" || keys === "for_ever" || readByOperationId === "indirectly"
    ? null
    : Duration.fromInputUnsafe(keys)

/** The kind of a status read: by the reference, by the operation's id, indirectly, or none. */
export const readKind = (
  { readByOperationId = "no" }: ProviderPromises,
  reference: ProviderReference | null
): "direct" | "indirect" | "none" => {
  if (reference !== null) return "direct"
  return readByOperationId === "no" ? "none" : readByOperationId === "indirectly" ? "indirect" : "direct"
}

/** Why an operation without the provider's reference is not read, under the promise `no`. */
export const unaskedWithoutReference = "not asked, because the provider has no status read without its own reference"

/** Nothing, `null` or `undefined` at the end of a segment, where the adapter puts a reference that it does not have. */
const missingInPath = /[/:](?:null|undefined)?(?=\/|$)/iu

/** The end of the path of a collection: `/transfers/`. */
const trailingSlash = /(?<=[^/:])\/$/u

/** The same as a value of the query. */
const missingInQuery = /=(?:null|undefined)?(?=&|$)/iu

const decodeUrl = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const splitTarget = (target: string): readonly [path: string, query: string] => {
  const [path, ...rest] = target.split("?") as [string, ...Array<string>]
  return [path, rest.join("?")]
}

const withoutHyphens = (text: string): string => text.replaceAll("-", "").toLowerCase()

/** A status request without the provider's reference. */
interface StatusTarget {
  /** Path and query. */
  readonly path: string
  readonly body?: string
  /** The idempotency key in a header. */
  readonly key?: string
  /** Path and query of the same request by `reference`, to compare. */
  readonly byReference?: { readonly path: string; readonly reference: string } | undefined
}

/**
 * Whether a status request without the provider's reference asks for the operation: it contains the operation's id, with or without
 * hyphens, in the path, the query, the body, or as the key. Otherwise "not found" is about another payment, or about none. The id in any
 * other header only traces the request. The id in the query does not repair a path without a reference. A slash at the end of the path
 * (`/transfers/?key=…`) is no such place if the query of the request by reference lacks the id: then the id is what the query looks for.
 */
export const asksFor = (id: string, { body = "", byReference, key = "", path: target }: StatusTarget): boolean => {
  const [path, query] = splitTarget(target)
  const isIn = (text: string) =>
    [text, decodeUrl(text)].some((form) => withoutHyphens(form).includes(withoutHyphens(id)))
  if (isIn(path)) return true
  const looksForId = byReference !== undefined && isIn(query)
    && !(byReference.path.includes(encodeURIComponent(byReference.reference)) && isIn(splitTarget(byReference.path)[1]))
  if (missingInPath.test(looksForId ? path.replace(trailingSlash, "") : path)) return false
  return isIn(query) || !missingInQuery.test(query) && (isIn(body) || isIn(key))
}

/** Whether a status read gets the payload. */
export const readNeedsPayload = (
  { promises = {}, readsNeedPayload = false }: {
    readonly promises?: ProviderPromises
    readonly readsNeedPayload?: boolean
  },
  reference: ProviderReference | null
): boolean => readsNeedPayload || readKind(promises, reference) === "indirect"

/** How long after the record of a submission its first status read waits, at least. */
export const firstReadAfter = (promises: ProviderPromises, reference: ProviderReference | null): Duration.Duration =>
  reference === null ? lagOf(promises) : Duration.zero

/** From when on "not found" proves that the provider never received the operation; null if it never does. By the clock of the database. */
export const notFoundIsFinalFrom = (
  promises: ProviderPromises,
  { operation: { send_before } }: Pick<ReadFacts, "operation">,
  refusedFrom: DateTime.Utc | null
): DateTime.Utc | null => {
  const { lateRequests = "accepted", notFoundIsFinalAfter } = promises
  if (notFoundIsFinalAfter === undefined || lateRequests === "accepted" || send_before === null) return null
  const last = lateRequests === "refused_as_stated" ? refusedFrom : send_before
  return last === null ? null : DateTime.max(send_before, DateTime.addDuration(last, notFoundIsFinalAfter))
}

/**
 * Whether "not found" proves, in a read that began at `taken_at`, that the provider never received the operation. The clock of the reader
 * must agree: if that of the database was set forward during an attempt, the provider may still take its request. If one was set back, the
 * provider may have forgotten the key.
 */
export const isFinalNotFound = (
  promises: ProviderPromises,
  due: ReadFacts,
  refusedFrom: DateTime.Utc | null
): boolean => {
  const from = notFoundIsFinalFrom(promises, due, refusedFrom)
  const beganAt = DateTime.min(due.taken_at, DateTime.makeUnsafe(due.askedAt.wall))
  if (from === null || !DateTime.isGreaterThan(beganAt, from)) return false
  return knowsKey(promises, { ...due, taken_at: DateTime.max(due.taken_at, DateTime.makeUnsafe(due.askedAt.wall)) })
}

/**
 * Whether the provider still knows the key. One that has forgotten it says "not found" of a payment that it carried out. Nothing was sent
 * before the acceptance, nor long before `send_before`, which counts if the clock of the database was set back after the acceptance.
 */
const knowsKey = (
  promises: ProviderPromises,
  { created_at, operation: { send_before }, taken_at }: Pick<ReadFacts, "created_at" | "operation" | "taken_at">
): boolean => {
  const lifetime = lifetimeOf(promises)
  if (lifetime === null) return true
  const earliest = send_before === null
    ? created_at
    : DateTime.min(created_at, DateTime.subtractDuration(send_before, longestSendWithin))
  return DateTime.isLessThan(taken_at, DateTime.addDuration(earliest, lifetime))
}

/**
 * Whether a person must ask the provider about an operation that a read did not find: no later "not found" proves anything, and the provider
 * would show a payment by now. A later read that finds it still settles it.
 */
export const isNeverFinalNotFound = (
  promises: ProviderPromises,
  due: Omit<ReadFacts, "askedAt"> & { readonly acknowledged: boolean; readonly mayProve: boolean }
): boolean => {
  const { send_before } = due.operation
  if (send_before === null) return true
  if (!DateTime.isGreaterThan(due.taken_at, DateTime.addDuration(send_before, lagOf(promises)))) return false
  // The provider contradicts an acknowledgement, or another version of the adapter sent the operation.
  if (due.acknowledged || !due.mayProve || !knowsKey(promises, due)) return true
  return !isFinal(promises) || promises.lateRequests === undefined || promises.lateRequests === "accepted"
}

/** Whether the operation was sent to the account that the settings reach now. So what that account does not have, no account has. */
export const isOfAccount = (
  { provider_account }: { readonly provider_account: string | null },
  { account = null }: { readonly account?: string | null | undefined }
): boolean => provider_account === account

/**
 * Whether the settings may reach the account that the operation was sent to: they name it, or of one of both no more than the environment is
 * known. Then a read goes on, and what it does not find proves nothing.
 */
export const mayBeOfAccount = (
  due: { readonly provider_account: string | null },
  adapter: { readonly account?: string | null | undefined }
): boolean => {
  if (due.provider_account === null || isOfAccount(due, adapter)) return true
  const [sent, asked] = [`${due.provider_account} `, `${adapter.account ?? ""} `] as const
  return asked !== " " && (sent.startsWith(asked) || asked.startsWith(sent))
}

/** What an adapter declares of its requests. */
interface Sending {
  readonly account?: string | undefined
  readonly keyIn?: string | undefined
  readonly promises?: ProviderPromises | undefined
}

/**
 * How an adapter sends, as far as "not found" and a fence rest on it: where it sends the id as the key, whether the provider keeps keys, how a read
 * finds it, and whether the provider gets a deadline. Null if neither may prove anything: without a read by the id, or, unless the read is
 * indirect, without an account. The ledger keeps the text: another form of it has a person asked about what is in doubt.
 */
export const sentAs = ({ account, keyIn = "", promises = {} }: Sending): string | null => {
  const { keys = "none", lateRequests = "accepted", readByOperationId = "no" } = promises
  if (readByOperationId === "no" || account === undefined && readByOperationId !== "indirectly") return null
  const reads = typeof readByOperationId === "object" ? "yes" : readByOperationId
  const late = typeof lateRequests === "object" ? { header: lateRequests.header.toLowerCase() } : lateRequests
  return JSON.stringify([keyIn, keys === "none" ? "no keys" : "keys", reads, late])
}

/** Whether the operation was sent as this adapter sends. Otherwise its provider may not know the key or the deadline that a proof rests on. */
export const isSentAs = ({ sent_as }: { readonly sent_as: string | null }, adapter: Sending): boolean =>
  sent_as === sentAs(adapter)

/** What a person asks the provider. */
export const questionOf = ({ question }: ProviderPromises, operation: ProviderOperation): string =>
  question?.(operation)
    ?? `Did you receive a request with the key ${operation.id}? Have you carried it out, or can you still carry it out?`

/** For how long a success of this type may be reversed; null if it is final. */
const reversibleWithin = ({ reversibleFor }: ProviderPromises, type: string): Duration.Duration | null => {
  const input = hasTypes(reversibleFor) ? new Map(Object.entries(reversibleFor.byType)).get(type) : reversibleFor
  return input === undefined ? null : Duration.fromInputUnsafe(input)
}

const hasTypes = (
  input: ProviderPromises["reversibleFor"]
): input is Exclude<ProviderPromises["reversibleFor"], Duration.Input | undefined> =>
  typeof input === "object" && input !== null && "byType" in input

/** The types of operation with a `reversibleFor` of their own. */
export const reversibleTypes = ({ reversibleFor }: ProviderPromises): ReadonlyArray<string> =>
  hasTypes(reversibleFor) ? Object.keys(reversibleFor.byType) : []

/** The member of the evidence of a success that may be reversed. */
export const reversibleEvidence = (promises: ProviderPromises, type: string): { readonly reversible_for?: string } => {
  const within = reversibleWithin(promises, type)
  return within === null ? {} : { reversible_for: Duration.format(within) }
}

/** The member of a recording that has a success read again, for as long as it may be reversed. */
export const reversibleRecording = (
  promises: ProviderPromises,
  type: string,
  { readAfterSuccess }: SubmissionPolicyShape
): Pick<Recording, "reversible"> => {
  const within = reversibleWithin(promises, type)
  return within === null ? {} : { reversible: { within, read_in: readAfterSuccess } }
}

const isDuration = (input: Duration.Input): boolean => {
  const duration = Duration.fromInput(input)
  return duration._tag === "Some" && Duration.isFinite(duration.value) && Duration.isPositive(duration.value)
}

const durationsOf = ({ keys, notFoundIsFinalAfter, readByOperationId, reversibleFor }: ProviderPromises) => [
  ...keys === undefined || keys === "none" || keys === "for_ever" ? [] : [keys],
  ...typeof readByOperationId === "object" ? [readByOperationId.lag] : [],
  ...[notFoundIsFinalAfter, ...hasTypes(reversibleFor) ? Object.values(reversibleFor.byType) : [reversibleFor]]
    .filter((input) => input !== undefined)
]

const isFinal = ({ notFoundIsFinalAfter }: ProviderPromises): boolean => notFoundIsFinalAfter !== undefined

const windowOf = ({ notFoundIsFinalAfter = 0 }: ProviderPromises) => Duration.fromInputUnsafe(notFoundIsFinalAfter)

/** What else an adapter declares. */
interface Declared {
  readonly account?: string | undefined
  readonly keyIn?: string | undefined
  readonly readsNeedPayload?: boolean
  readonly fence?: unknown
}

const namesNoAccount = ({ account = "" }: Declared): boolean => account.trim() === ""

/** The promises that no adapter can keep safely together, each with the sentence that refuses it. The first that holds is told. */
const refusedPromises: ReadonlyArray<
  readonly [refuses: (promises: ProviderPromises, declared: Declared) => boolean, sentence: string]
> = [
  [
    (promises) => !durationsOf(promises).every(isDuration),
    "each duration of promises must be finite and longer than 0"
  ],
  [
    ({ lateRequests }, { keyIn = "" }) =>
      Math.max(keyIn.length, typeof lateRequests === "object" ? lateRequests.header.length : 0) > 300,
    "keyIn, with the base URL, and the header of lateRequests must not be longer than 300 characters: each claim keeps them"
  ],
  [
    (promises, declared) => promises.reversibleFor !== undefined && readNeedsPayload({ ...declared, promises }, null),
    "reversibleFor requires reads without the payload: the end of an operation erases it, so no read would find a reversal"
  ],
  [
    (promises) => isFinal(promises) && (promises.lateRequests ?? "accepted") === "accepted",
    "notFoundIsFinalAfter requires lateRequests: a provider that takes late requests could carry one out after its operation has failed"
  ],
  [
    (promises) => isFinal(promises) && (promises.readByOperationId ?? "no") === "no",
    "notFoundIsFinalAfter requires readByOperationId: a read that finds no payment by the operation's id proves nothing"
  ],
  [
    (promises) =>
      isFinal(promises) && promises.readByOperationId === "indirectly" &&
      promises.lateRequests !== "refused_as_stated",
    "notFoundIsFinalAfter with readByOperationId \"indirectly\" requires lateRequests \"refused_as_stated\""
  ],
  [
    (promises) => isFinal(promises) && Duration.isLessThan(windowOf(promises), lagOf(promises)),
    "notFoundIsFinalAfter must not be shorter than the lag of readByOperationId"
  ],
  [
    (promises) => {
      const lifetime = lifetimeOf(promises)
      return isFinal(promises) && lifetime !== null
        && Duration.isLessThanOrEqualTo(lifetime, Duration.sum(windowOf(promises), longestSendWithin))
    },
    "notFoundIsFinalAfter must end five minutes or more before keys do: later, the provider does not find what it carried out"
  ],
  [
    // An indirect read names its own subject, which another account does not have.
    (promises, declared) =>
      isFinal(promises) && promises.readByOperationId !== "indirectly" && namesNoAccount(declared),
    "notFoundIsFinalAfter requires account: once the settings reach another account, a read there does not find what the first carried out"
  ],
  [
    (_, declared) => declared.fence !== undefined && namesNoAccount(declared),
    "fence requires account: once the settings reach another account, the key is free there, and its fence proves nothing"
  ],
  [
    ({ keys }, { fence }) => fence !== undefined && keys !== "for_ever",
    "fence requires keys \"for_ever\": a provider that forgets the key could take the lost request later"
  ],
  [
    ({ readByOperationId }, { fence }) => fence !== undefined && readByOperationId !== "yes",
    "fence requires readByOperationId \"yes\": a fence begins only if a read finds no order with the operation's id"
  ],
  [
    ({ lateRequests = "accepted" }, { fence }) => fence !== undefined && lateRequests !== "accepted",
    "fence requires lateRequests \"accepted\": a provider that refuses late requests refuses the fence, and needs none"
  ]
]

/** Throws a `TypeError` with one sentence if the promises cannot be safe together, or with what else the adapter declares. */
export const checkPromises = (promises: ProviderPromises, declared: Declared): void => {
  const refused = refusedPromises.find(([refuses]) => refuses(promises, declared))
  if (refused !== undefined) throw new TypeError(refused[1])
}
