/**
 * Declares mutation endpoints: the `POST` endpoints of an application that accept financial requests.
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as OpenApi from "effect/http-api/OpenApi"
import type { PathInput } from "effect/http/HttpRouter"
import type * as Schema from "effect/Schema"
import { strict } from "../domain/InvalidMember.ts"
import { Gate } from "./Middleware.ts"
import { acceptanceErrors, AcceptedOperation, mutationHeaders, MutationRequest } from "./MutationRequest.ts"

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
  { description, errors = [], params, payload, query, summary }: MutationOptions<Payload, Params, Query, Errors>
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
    .annotateMerge(OpenApi.annotations({ identifier: name, summary, description }))
  // TypeScript cannot follow the conditional spreads and the generic members; `MutationEndpoint` states their result, and the
  // tests of the typed client hold it.
  return endpoint as unknown as MutationEndpoint<Name, Path, Payload, Params, Query, Errors>
}
