/** Status reads of an adapter, the check of their requests, and the probe at the start of a worker. */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { ProviderConnectionId, ResourceOwner } from "../../domain/Grant.ts"
import { OperationId, OperationType } from "../../domain/Operation.ts"
import { pauseReasons } from "../../domain/operators/FiguresForm.ts"
import type { ProviderOperation, ProviderReference } from "../../domain/Submission.ts"
import { namesNothing, type NotProven, type NotSent, StatusAnswer } from "../providers/ProviderAdapter.ts"
import { asksFor, readKind, unaskedWithoutReference } from "../providers/ProviderPromises.ts"
import {
  type Adapter,
  type AnyOptions,
  ask,
  defaultKeyHeader,
  describeTarget,
  goesOn,
  inSpan,
  notProven,
  unexpected
} from "./HttpCall.ts"
import type { Decode, ReadOn } from "./HttpDecoding.ts"
import { NoAnswer } from "./HttpExchange.ts"
import {
  encodeWithoutBody,
  type HttpCredentials,
  type HttpHeaders,
  type HttpStatusRead,
  NotEncodable
} from "./HttpRequest.ts"

/** Resources and pages that a status read visits after the first one, at most. */
const mostReadOn = 8

/** Reads the resources or pages that the answers name, in turn. */
const readOn = Effect.fnUntraced(function*(
  adapter: Adapter,
  operation: ProviderOperation,
  headersOf: () => HttpHeaders,
  first: ReadOn,
  decodePage: Decode<StatusAnswer | ReadOn, NotSent>
) {
  let next = first
  let isList = true
  for (let count = 0; count < mostReadOn; count++) {
    const { decode = decodePage, path } = next
    isList &&= next.decode === undefined
    const encode = (credentials: HttpCredentials) =>
      encodeWithoutBody(adapter.baseUrl, { path, headers: headersOf() }, credentials)
    yield* goesOn
    const status = yield* Effect.mapError(
      ask(adapter, operation, encode, decode, null),
      (error) => error._tag === "NoAnswer" && error.status === 404 ? new NoAnswer({ ...error, status: null }) : error
    )
    if (status._tag === "NotFound") return isList ? status : StatusAnswer.NotFound({ ...status, evidence: null })
    if (status._tag !== "ReadOn") return status
    next = status
  }
  return StatusAnswer.NotProven({
    reason: "unclear",
    detail: `the state is not in the first answer, and not in the ${mostReadOn} resources or pages after it`
  })
})

/** The idempotency key in the headers of a request. Names of headers have no case. */
const keyIn = (headers: HttpHeaders, { idempotencyKeyHeader = defaultKeyHeader }: AnyOptions): string => {
  const name = idempotencyKeyHeader.toLowerCase()
  return Object.entries(headers).find(([other]) => other.toLowerCase() === name)?.[1] ?? ""
}

/** The same request by a reference that no bank gives, to find the place of the reference. */
const requestByReference = (
  { status }: AnyOptions,
  operation: ProviderOperation,
  payload: unknown
): { readonly path: string; readonly reference: string } | undefined => {
  const reference = "reference-of-no-payment" as ProviderReference
  try {
    return { path: status.request(operation, reference, payload).path, reference }
  } catch {
    return undefined
  }
}

/** Builds a status request. Throws if there is no reference and it does not ask for the operation: the adapter has a mistake. */
export const statusRequest = (
  { options }: Pick<Adapter, "options">,
  operation: ProviderOperation,
  reference: ProviderReference | null,
  payload: unknown
): HttpStatusRead => {
  const { promises, status } = options
  const request = status.request(operation, reference, payload)
  const mustAsk = reference === null && readKind(promises, null) === "direct" && status.isUnfiltered !== true
  const { headers = {}, path } = request
  if (!mustAsk) return request
  const byReference = requestByReference(options, operation, payload)
  if (asksFor(operation.id, { path, key: keyIn(headers, options), byReference })) return request
  throw new NotEncodable({
    reason: "a status request without a reference must contain the operation's id, in path, query or the header of the "
      + "idempotency key, and no empty place for the reference, or the adapter must promise readByOperationId \"no\""
  })
}

export const readStatus = (adapter: Adapter) =>
  Effect.fnUntraced(
    function*(operation: ProviderOperation, reference: ProviderReference | null, payload?: Schema.Json) {
      const { baseUrl, options } = adapter
      if (readKind(options.promises, reference) === "none") {
        return StatusAnswer.NotProven({ reason: "unclear", detail: unaskedWithoutReference })
      }
      const decoded = payload === undefined ? null : yield* adapter.payloadOf(operation, payload)
      const request = () => statusRequest(adapter, operation, reference, decoded)
      const encode = (credentials: HttpCredentials) => encodeWithoutBody(baseUrl, request(), credentials)
      const read = { operation, reference, payload: decoded }
      const decode: Decode<StatusAnswer | ReadOn, NotSent> = (answer) => options.status.decode(answer, read)
      const status = yield* ask(adapter, operation, encode, decode, null)
      return status._tag === "ReadOn"
        ? yield* readOn(adapter, operation, () => request().headers ?? {}, status, decode)
        : status
    },
    Effect.catch((error) =>
      Effect.succeed<StatusAnswer>(
        error._tag === "NoAnswer" && error.status === 404
          ? StatusAnswer.NotFound({ names: namesNothing, evidence: null })
          : notProven(error)
      )
    ),
    Effect.catchDefect(unexpected),
    inSpan("HttpProvider.readStatus")
  )

/** An operation that no ledger has: ids begin with the time, and this one is of 1970. */
const nonexistent: Omit<ProviderOperation, "type"> = {
  id: OperationId.make("00000000-0000-7000-8000-000000000000"),
  resource_owner: ResourceOwner.make("probe"),
  provider_connection_id: ProviderConnectionId.make("00000000-0000-7000-8000-000000000000"),
  send_before: null
}

const samples = ({ payloads = {} }: AnyOptions): readonly [ProviderOperation, ...Array<ProviderOperation>] => {
  const [first = "probe", ...others] = Object.keys(payloads)
  const sample = (type: string) => ({ ...nonexistent, type: OperationType.make(type) })
  return [sample(first), ...others.map(sample)]
}

/** Tells of the mistake at the start, and not after the first lost answer. A function that fails without a payload shows none. */
export const checkStatusRequests = (adapter: Adapter): void => {
  for (const operation of samples(adapter.options)) {
    try {
      statusRequest(adapter, operation, null, null)
    } catch (error) {
      if (error instanceof NotEncodable) throw new TypeError(error.reason, { cause: error })
    }
  }
}

/**
 * Reads the status of an operation that does not exist. A 404 that the adapter does not declare is likely one of another path. Refused
 * credentials speak against the settings unless each operation has credentials of its own.
 */
export const probe = (adapter: Adapter): Effect.Effect<string | null, NotProven> => {
  const [operation] = samples(adapter.options)
  return Effect.flatMap(readStatus(adapter)(operation, null), (status) => {
    if (status._tag === "NotProven" && status.reason === "unreachable") return Effect.fail(status)
    const isOfAll = adapter.options.credentialsOf !== "operation"
    if (isOfAll && status._tag === "NotProven" && status.detail?.startsWith(pauseReasons.credentials) === true) {
      return Effect.succeed(status.detail)
    }
    if (status._tag !== "NotFound" || status.evidence !== null) return Effect.succeed(null)
    const { path } = adapter.options.status.request(operation, null, null)
    const target = describeTarget({ method: "GET", url: adapter.baseUrl + path })
    return Effect.succeed(
      `a status read of an operation that does not exist got status 404, which is not declared: ${target}`
    )
  })
}
