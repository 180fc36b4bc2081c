/** Names the parts of a request that do not fit its endpoint, for the `fields` of a problem. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpApi from "effect/http-api/HttpApi"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import type { HttpApiSchemaError } from "effect/http-api/HttpApiError"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import { RouteContext } from "effect/http/HttpRouter"
import { HttpServerRequest, ParsedSearchParams } from "effect/http/HttpServerRequest"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import type { ProblemField, ProblemOf } from "../../api/Problems.ts"
import { invalidMembers, maxName, maxNamed, messageOf, noteOfCut } from "../../domain/InvalidMember.ts"
import type { Problems } from "./ProblemResponses.ts"
import { hasBody } from "./RequestChecks.ts"

/** The endpoint of a request, as middleware gets it. */
export interface Options {
  readonly endpoint: HttpApiEndpoint.Top
  readonly group: HttpApiGroup.Top
}

/** Whether a request has a body, or query parameters, on an endpoint without any. */
export const bringsSurplus = (
  endpoint: HttpApiEndpoint.Top,
  request: HttpServerRequest,
  query: Readonly<Record<string, unknown>>
): boolean =>
  (endpoint.payload.size === 0 && hasBody(request.headers)) ||
  (endpoint.query === undefined && Object.keys(query).length > 0)

/** The members of the encoded query of an endpoint. */
const parametersOf = ({ query }: HttpApiEndpoint.Top) => {
  const encoded = query === undefined ? null : SchemaAST.toEncoded(query.ast)
  return encoded !== null && SchemaAST.isObjects(encoded) ? encoded.propertySignatures : []
}

/** The message for a parameter that the endpoint does not know. */
const surplusOf = (endpoint: HttpApiEndpoint.Top): string => {
  const names = parametersOf(endpoint).map(({ name }) => String(name))
  return names.length === 0
    ? "Expected no parameters: this endpoint takes none"
    : `Expected only parameters of this endpoint: ${names.join(", ")}`
}

/** The first names of the paths of `fields`. */
type Part = "path" | "header" | "query" | "body"

/** The part that an endpoint could not decode. Failures of responses never come here. */
const partOf = ({ kind }: HttpApiSchemaError): Part =>
  kind === "Params" ? "path" : kind === "Query" ? "query" : kind === "Payload" ? "body" : "header"

const fieldsOf = (
  endpoint: HttpApiEndpoint.Top,
  part: Part,
  error: Schema.SchemaError
): ReadonlyArray<ProblemField> => {
  const undeclared = part === "body" ? "Expected only members that this endpoint takes" : surplusOf(endpoint)
  return invalidMembers(
    error,
    (issue) => issue._tag === "UnexpectedKey" ? undeclared : messageOf(issue)
  ).map(({ message, path }) => ({ path: [part, ...path].join("."), message }))
}

/**
 * The failures of a body on an endpoint with one payload. `HttpApi` makes a union of it. A union selects its members by their literals, so
 * the error for a wrong literal names no member of the body.
 */
const decodeAlone = (
  error: Schema.SchemaError,
  options: SchemaAST.ParseOptions | undefined
): Effect.Effect<Schema.SchemaError, never, HttpServerRequest> => {
  const { issue } = error
  if (issue._tag !== "AnyOf" || issue.issues.length > 0 || issue.ast.types.length !== 1) return Effect.succeed(error)
  const decode = Schema.decodeUnknownEffect(Schema.make<Schema.Codec<unknown>>(issue.ast.types[0]!), {
    ...options,
    errors: "all"
  })
  return HttpServerRequest.use(({ json }) => Effect.flatMap(json, decode)).pipe(
    Effect.match({ onFailure: (alone) => Schema.isSchemaError(alone) ? alone : error, onSuccess: () => error })
  )
}

/** Whether an endpoint takes several values of a parameter. */
const takesSeveral = (endpoint: HttpApiEndpoint.Top, name: string): boolean =>
  parametersOf(endpoint).some((member) => member.name === name && SchemaAST.isArrays(member.type))

/** Names a parameter that was repeated and may not be. */
const nameRepeated =
  (endpoint: HttpApiEndpoint.Top, query: Readonly<Record<string, unknown>>) => (field: ProblemField): ProblemField => {
    const name = field.path.startsWith("query.") ? field.path.slice("query.".length) : ""
    return field.message !== surplusOf(endpoint) && Array.isArray(query[name]) && !takesSeveral(endpoint, name)
      ? { ...field, message: "Expected the parameter once" }
      : field
  }

/** Fails with the failures of a request. An answer of `maxNamed` says that there may be more. */
export const refuseFields = (
  problems: Problems["Service"],
  fields: ReadonlyArray<ProblemField>,
  detail?: string
): Effect.Effect<never, ProblemOf<"invalid_request">> =>
  problems.fail("invalid_request", { fields, detail: detail ?? (noteOfCut(fields) || undefined) })

/**
 * The failures of the current request, `maxNamed` at most. An endpoint decodes path, headers, query and body, and stops at the first
 * part that does not fit: `failure` has its failures. The parts that it did not decode are decoded here, except a body.
 */
export const findInvalidFields = (
  { endpoint, group }: Options,
  failure?: HttpApiSchemaError
): Effect.Effect<ReadonlyArray<ProblemField>, never, HttpServerRequest | ParsedSearchParams | RouteContext> =>
  Effect.gen(function*() {
    const { headers } = yield* HttpServerRequest
    const { params } = yield* RouteContext
    const query = yield* ParsedSearchParams
    const annotations = Context.merge(group.annotations, endpoint.annotations)
    const known = failure === undefined ? [] : fieldsOf(
      endpoint,
      partOf(failure),
      yield* decodeAlone(failure.cause, Context.getOrUndefined(annotations, HttpApi.PayloadParseOptions))
    )
    const decoded = failure === undefined ? -1 : ["path", "header", "query", "body"].indexOf(partOf(failure))
    const parts = [
      ["path", endpoint.params, params, HttpApi.ParamsParseOptions],
      ["header", endpoint.headers, headers, HttpApi.HeadersParseOptions],
      ["query", endpoint.query && Schema.toCodecArrayFromSingle(endpoint.query), query, HttpApi.QueryParseOptions]
    ] as const
    const others = yield* Effect.forEach(
      parts.slice(decoded + 1),
      ([part, schema, input, parseOptions]) =>
        schema === undefined ? Effect.succeed([]) : Effect.match(
          Schema.decodeUnknownEffect(schema as Schema.Codec<unknown>, {
            ...Context.getOrUndefined(annotations, parseOptions as typeof HttpApi.QueryParseOptions),
            errors: "all"
          })(input),
          { onFailure: (error) => fieldsOf(endpoint, part, error), onSuccess: () => [] }
        )
    )
    return [
      ...known,
      ...others.flat(),
      ...endpoint.query === undefined
        ? Object.keys(query).map((name) => ({ path: `query.${name.slice(0, maxName)}`, message: surplusOf(endpoint) }))
        : [],
      ...endpoint.payload.size === 0 && hasBody(headers) ? [{ path: "body", message: "Expected no body" }] : []
    ].slice(0, maxNamed).map(nameRepeated(endpoint, query))
  })
