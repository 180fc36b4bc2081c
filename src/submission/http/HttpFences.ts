/**
 * The fence of an adapter: an order that cannot pay occupies the key of an operation. See `ProviderAdapter.fence`.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ProviderOperation } from "../../domain/Submission.ts"
import { FenceAnswer, SendDeadline } from "../providers/ProviderAdapter.ts"
import {
  type Adapter,
  type AnyOptions,
  ask,
  goesOn,
  inSpan,
  notProven,
  submissionHeaders,
  unexpected
} from "./HttpCall.ts"
import { byStatus, onBody, refusedForNow, wrongCredentials } from "./HttpDecoding.ts"
import { encodeSubmission, encodeWithoutBody, type HttpCredentials, type HttpSubmission } from "./HttpRequest.ts"
import { statusRequest } from "./HttpStatusReads.ts"

const stillWaits = FenceAnswer.NotProven({ reason: "unclear", detail: "the order of the fence is not cancelled yet" })

const otherAccount = FenceAnswer.NotProven({
  reason: "unclear",
  detail: "no fence was sent: the credentials are of another account than that of the settings"
})

const isAccount = ({ member, value }: { readonly member: string; readonly value: string }) =>
  byStatus({
    200: onBody(Schema.Record(Schema.String, Schema.Unknown), (body) => body[member] === value),
    401: wrongCredentials,
    403: wrongCredentials,
    429: refusedForNow
  })

const sendFence = (adapter: Adapter, order: HttpSubmission, decoded: unknown) =>
  Effect.fnUntraced(
    function*(operation: ProviderOperation) {
      const { baseUrl, options } = adapter
      const { cancel, checkAccount, decode } = options.fence!
      const headers = submissionHeaders(options, operation)
      const occupy = (credentials: HttpCredentials) =>
        encodeSubmission(baseUrl, order, credentials, headers, options.submit.sign)
      const encodeRead = (credentials: HttpCredentials) =>
        encodeWithoutBody(baseUrl, statusRequest(adapter, operation, null, decoded), credentials)
      const readByKey = Effect.andThen(goesOn, ask(adapter, operation, encodeRead, decode, null, decoded))
      // The later requests find or cancel the order of this one, and may leave at any time.
      const notAfter = yield* SendDeadline
      const late = "the time to send the fence has passed"
      if (checkAccount !== undefined) {
        const encode = (credentials: HttpCredentials) => encodeWithoutBody(baseUrl, checkAccount, credentials)
        const isOurs = isAccount(checkAccount)
        if (!(yield* ask(adapter, operation, encode, isOurs, notAfter, decoded, late))) return otherAccount
        yield* goesOn
      }
      let holder = yield* ask(adapter, operation, occupy, decode, notAfter, decoded, late)
      if (holder._tag === "Unnamed") holder = yield* readByKey
      // An order of another operation must not be cancelled. The contradiction brings this one under review.
      if (holder._tag !== "Unnamed" && (holder.names.operation_id ?? operation.id) !== operation.id) {
        return FenceAnswer.Known(holder.names)
      }
      if (holder._tag === "Own" && !holder.isCancelled) {
        const cancellation = cancel(holder.names.reference, operation)
        const encode = (credentials: HttpCredentials) => encodeWithoutBody(baseUrl, cancellation, credentials)
        yield* goesOn
        yield* ask(adapter, operation, encode, () => Effect.void, null, decoded)
        holder = yield* readByKey
      }
      if (holder._tag === "First") return FenceAnswer.Known(holder.names)
      if (holder._tag === "Unnamed" || !holder.isCancelled) return stillWaits
      const { evidence, names } = holder
      return FenceAnswer.Occupied({ names, evidence })
    },
    Effect.catch((error) => Effect.succeed(notProven(error))),
    Effect.catchDefect(unexpected),
    inSpan("HttpProvider.fence")
  )

/** A payload that cannot be prepared has no fence: a person asks the provider. */
export const fence = (adapter: Adapter, { request }: NonNullable<AnyOptions["fence"]>) =>
  Effect.fnUntraced(
    function*(operation: ProviderOperation, payload: Schema.Json) {
      const decoded = yield* adapter.payloadOf(operation, payload)
      const order = request(operation, decoded, operation.type)
      return order === null ? null : sendFence(adapter, order, decoded)(operation)
    },
    Effect.catchCause(() => Effect.succeed(null))
  )
