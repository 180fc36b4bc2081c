/**
 * Declares mutation endpoints: the `POST` endpoints of an application that accept financial requests. They have the `Idempotency-Key`
 * header, which is part of the request binding, and the answer in common.
 */
import * as Context from "effect/Context"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import type { PathInput } from "effect/http/HttpRouter"
import * as Schema from "effect/Schema"
import { IdempotencyKey } from "../domain/Idempotency.ts"
import { strict } from "../domain/InvalidMember.ts"
import { Operation } from "../domain/Operation.ts"
import { hasDigitsOfCurrency, Terms, type TermsOf, toMinorUnits } from "../domain/Terms.ts"
import { Gate } from "./Middleware.ts"
import { acceptedExample, sentHeader } from "./OperationsApi.ts"
import { problems, refusedByLimits, refusedGrants } from "./Problems.ts"

export { hasDigitsOfCurrency, Terms, toMinorUnits }

/** The name of the header, in lower case, as headers are looked up. */
export const idempotencyKeyHeader = "idempotency-key"

/**
 * The header. The draft (draft-ietf-httpapi-idempotency-key-header, §2.1) requires a string of structured fields without parameters
 * (RFC 9651 §3.3.3), `"8e03978e"`. Most clients send it without quotes, as for Stripe. Both forms mean the same key.
 */
const IdempotencyKeyHeader = Schema.String.check(Schema.isPattern(
  /^(?:"(?:[\x21\x23-\x5b\x5d-\x7e]|\\["\\]){1,255}"|[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]{1,255})$/u,
  {
    expected:
      "1 to 255 visible ASCII characters, without commas, semicolons, quotes or backslashes unless the key is in quotes"
  }
))

const isHeader = Schema.is(IdempotencyKeyHeader)

/** Reads the key of the header; null if the header is invalid. @internal */
export const parseIdempotencyKey = (header: string): IdempotencyKey | null => {
  const text = header.trim()
  if (!isHeader(text)) return null
  return IdempotencyKey.make(text.startsWith("\"") ? text.slice(1, -1).replaceAll(/\\(.)/g, "$1") : text)
}

/** The idempotency key of the current request. */
export class CurrentKey extends Context.Service<CurrentKey, IdempotencyKey>()(
  "financial-agents-gateway/api/CurrentKey"
) {}

/** The `terms` that the endpoint of the current request declares. Null: none. @internal */
export const EndpointTerms: Context.Reference<TermsOf<never> | null> = Context.Reference(
  "financial-agents-gateway/api/EndpointTerms",
  { defaultValue: (): TermsOf<never> | null => null }
)

/**
 * Checks a financial request before its body is decoded. The request must have an idempotency key, a body of JSON with
 * at most 64 KiB, and no query unless the endpoint declares one.
 */
export class MutationRequest extends HttpApiMiddleware.Service<MutationRequest, { provides: CurrentKey }>()(
  "financial-agents-gateway/api/MutationEndpoint",
  {
    error: problems("idempotency_key_required", "unsupported_media_type", "invalid_request", "request_timeout")
  }
) {}

/** The `headers` of an endpoint behind `MutationRequest`: its description and its client then include the key. */
const mutationHeaders = {
  [idempotencyKeyHeader]: IdempotencyKeyHeader.annotate({
    description:
      "Names this piece of work: the same for every repetition of the request, for ever. A string of structured "
      + "fields (RFC 9651 §3.3.3), or the same without quotes; 1 to 255 visible ASCII characters."
  })
}

/** The name of the header that marks the answer to a repetition, in lower case. Its only value is `true`, as for Stripe. @internal */
export const idempotentReplayedHeader = "idempotent-replayed"

/**
 * 202, for the first request and for every repetition: the current operation, where to read it, and after how many
 * seconds. There is no `retry-after` once the state is final. Answers to repetitions have `idempotent-replayed`.
 */
export const AcceptedOperation = HttpApiSchema.WithHeaders(
  Operation.annotateKey({
    examples: [acceptedExample]
  }).pipe(HttpApiSchema.status(202)),
  {
    location: sentHeader("Where to read the operation."),
    "retry-after": Schema.optionalKey(
      Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({
        description: "Seconds to wait before the first read. Absent once the state is final."
      })
    ),
    [idempotentReplayedHeader]: Schema.optionalKey(
      Schema.Literal("true").annotate({
        description: "The request was recorded before, and this is its operation. Absent if this request was the first."
      })
    )
  }
)
export type AcceptedOperation = typeof AcceptedOperation.Type

/** The problems of an acceptance, for the `error` of an endpoint. Its middleware declares the other problems. */
const acceptanceErrors = problems(...refusedGrants, ...refusedByLimits, "idempotency_key_reused")

type Fields = Schema.Top | Schema.Struct.Fields

/** The parts of a mutation endpoint that the application chooses. */
export interface MutationOptions<
  Payload extends Schema.Top,
  Params extends Fields = never,
  Query extends Fields = never,
  Errors extends Schema.Top = never
> {
  /** The body, as JSON. The endpoint refuses members that the schema does not have. */
  readonly payload: Payload
  /** The parameters of the path. */
  readonly params?: Params
  /** The query parameters. Without them, the endpoint refuses every query. */
  readonly query?: Query
  /**
   * Finds amount, currency and payee in the payload, for operators: they decide about operations. The ledger stores them with the
   * operation, sealed like the payload, and refuses an amount with more digits than its currency has (422). Clients never see them.
   * It gets the payload that the handler accepts, which is the body unless the handler changes it.
   */
  readonly terms?: TermsOf<Payload["Type"]>
  /** Problems of the handler itself. The endpoint declares those of an acceptance already. */
  readonly errors?: ReadonlyArray<Errors>
  /** One line for the documentation. */
  readonly summary?: string
  readonly description?: string
}

type Texts<S extends Fields> = [S] extends [never] ? never
  : [S] extends [Schema.Struct.Fields] ? Schema.toCodecStringTree<Schema.Struct<S>>
  : [S] extends [Schema.Top] ? Schema.toCodecStringTree<S>
  : never

/** A mutation endpoint, for the group of an `HttpApi`. */
export type MutationEndpoint<
  Name extends string,
  Path extends string,
  Payload extends Schema.Top,
  Params extends Fields = never,
  Query extends Fields = never,
  Errors extends Schema.Top = never
> = HttpApiEndpoint.HttpApiEndpoint<
  Name,
  "POST",
  Path,
  Texts<Params>,
  Texts<Query>,
  Schema.toCodecJson<Payload>,
  Texts<typeof mutationHeaders>,
  typeof AcceptedOperation,
  Schema.toCodecJson<(typeof acceptanceErrors)[number] | Errors>,
  MutationRequest | Gate
>

/**
 * Declares `POST path`, which accepts a financial request and answers 202 with its operation: docs/mutations.md has the
 * contract. The endpoint requires an access token and an `Idempotency-Key`. It declares all problems and headers, also in
 * the OpenAPI document, where `name` is the id of the operation. `MutationEndpoints.accept` is the implementation, and
 * `MutationEndpoints.layer` implements the middleware.
 *
 *     mutationEndpoint("pay", "/v1/payments", { payload: Payment })
 */
export const mutationEndpoint = <
  const Name extends string,
  const Path extends PathInput,
  Payload extends Schema.Top,
  Params extends Fields = never,
  Query extends Fields = never,
  Errors extends Schema.Top = never
>(
  name: Name,
  path: Path,
  { description, errors = [], params, payload, query, summary, terms }: MutationOptions<Payload, Params, Query, Errors>
): MutationEndpoint<Name, Path, Payload, Params, Query, Errors> => {
  const endpoint = HttpApiEndpoint.post(name, path, {
    ...params === undefined ? {} : { params: params as Schema.Struct.Fields },
    ...query === undefined ? {} : { query: query as Schema.Struct.Fields },
    headers: mutationHeaders,
    payload,
    success: AcceptedOperation,
    error: [...acceptanceErrors, ...errors as ReadonlyArray<never>]
  })
    // A request passes the gate first.
    .middleware(MutationRequest)
    .middleware(Gate)
    .annotate(HttpApi.ParamsParseOptions, strict)
    .annotate(HttpApi.PayloadParseOptions, strict)
    .annotate(HttpApi.QueryParseOptions, strict)
    .annotate(EndpointTerms, terms ?? null)
    .annotateMerge(OpenApi.annotations({ identifier: name, summary, description }))
  // TypeScript cannot follow the conditional spreads and the generic members; `MutationEndpoint` states their result, and the
  // tests of the typed client hold it.
  return endpoint as unknown as MutationEndpoint<Name, Path, Payload, Params, Query, Errors>
}
