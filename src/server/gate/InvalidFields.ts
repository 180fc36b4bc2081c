/**
 * Names the parts of a request that do not fit its endpoint, for the `fields` of a problem.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpApi from "effect/http-api/HttpApi"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import type { HttpApiSchemaError } from "effect/http-api/HttpApiError"
import { RouteContext } from "effect/http/HttpRouter"
import { HttpServerRequest, ParsedSearchParams } from "effect/http/HttpServerRequest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import type { ProblemField, UnprocessableContent } from "../../api/Problems.ts"
import { firstIssues, maxIssues, strict } from "../../domain/firstIssues.ts"
import type { Problems } from "./ProblemResponses.ts"
import { hasBody } from "./RequestChecks.ts"

/** Whether a request has a body, or query parameters on an endpoint without any. */
export const bringsSurplus = (
  endpoint: HttpApiEndpoint.Top,
  request: HttpServerRequest,
  query: Readonly<Record<string, unknown>>
): boolean => hasBody(request.headers) || (endpoint.query === undefined && Object.keys(query).length > 0)

const surplus = "Expected only parameters of this endpoint"
const surplusMember = "Expected only members that this endpoint takes"

// Messages name what was expected and never the value: it may be a secret in the wrong place.
const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) => issue._tag === "UnexpectedKey" ? surplus : SchemaIssue.defaultLeafHook(issue)
})

/** A member of a path. The client chose it, so a long one is cut. */
const nameOf = (segment: PropertyKey | { readonly key: PropertyKey }): string =>
  String(typeof segment === "object" ? segment.key : segment).slice(0, 64)

const fieldsOf = (slot: string, issue: SchemaIssue.Issue): ReadonlyArray<ProblemField> =>
  format(issue).issues.slice(0, maxIssues).map(({ message, path = [] }) => ({
    path: [slot, ...path.map(nameOf)].join("."),
    message: slot === "body" && message === surplus ? surplusMember : message
  }))

const check = (slot: string, schema: Schema.Top | undefined, input: unknown): ReadonlyArray<ProblemField> => {
  if (schema === undefined) return []
  const result = Schema.decodeUnknownResult(schema as Schema.Codec<unknown, unknown>, strict)(input)
  return Result.isSuccess(result) ? [] : fieldsOf(slot, firstIssues(schema, input, result.failure.issue))
}

/** Whether an endpoint takes several values of a parameter. */
const takesSeveral = ({ query }: HttpApiEndpoint.Top, name: string): boolean => {
  const encoded = query === undefined ? null : SchemaAST.toEncoded(query.ast)
  return encoded !== null && SchemaAST.isObjects(encoded)
    && encoded.propertySignatures.some((member) => member.name === name && SchemaAST.isArrays(member.type))
}

/** Whether a parameter was repeated that may not be. */
const isRepeated = (
  endpoint: HttpApiEndpoint.Top,
  query: Readonly<Record<string, unknown>>,
  { message, path }: ProblemField
): boolean => {
  const name = path.slice("query.".length)
  return message !== surplus && Array.isArray(query[name]) && !takesSeveral(endpoint, name)
}

/** The failures of a body of JSON. A schema that takes undeclared members has one failure. */
const undecodedBody = (
  endpoint: HttpApiEndpoint.Top,
  { issue }: Schema.SchemaError,
  request: HttpServerRequest
): Effect.Effect<ReadonlyArray<ProblemField>> => {
  const options = Context.getOrUndefined(endpoint.annotations, HttpApi.PayloadParseOptions)
  const [payload] = endpoint.payload.values()
  const [schema] = payload?.schemas ?? []
  if (options?.onExcessProperty !== "error" || schema === undefined || payload!.schemas.length > 1) {
    return Effect.succeed(fieldsOf("body", issue))
  }
  return Effect.match(
    Effect.flatMap(Effect.orDie(request.text), (text) => Effect.try(() => JSON.parse(text) as unknown)),
    {
      onFailure: () => fieldsOf("body", issue),
      onSuccess: (value) => fieldsOf("body", firstIssues(schema, value, issue))
    }
  )
}

/** The failures of headers, and of the body of an endpoint that has one. */
const undecoded = (
  endpoint: HttpApiEndpoint.Top,
  failure: HttpApiSchemaError | undefined,
  request: HttpServerRequest
): Effect.Effect<ReadonlyArray<ProblemField>> => {
  switch (failure?.kind) {
    case "Headers":
      return Effect.succeed(fieldsOf("header", failure.cause.issue))
    case "Payload":
      return undecodedBody(endpoint, failure.cause, request)
    default:
      return Effect.succeed([])
  }
}

/** Fails with the failures of a request. An answer of `maxIssues` failures says that there may be more. */
export const refuseFields = (
  problems: Problems["Service"],
  fields: ReadonlyArray<ProblemField>,
  detail?: string
): Effect.Effect<never, UnprocessableContent> =>
  problems.fail("invalid_request", {
    fields,
    ...detail !== undefined
      ? { detail }
      : fields.length === maxIssues
      ? { detail: `\`fields\` names the first ${maxIssues} failures. There may be more.` }
      : {}
  })

/**
 * Returns the failures of the current request: path, query, headers and body; 32 at most. Pass the error that failed
 * the request as `failure`, if there is one: failures of headers and body come from it.
 */
export const findInvalidFields = (
  endpoint: HttpApiEndpoint.Top,
  failure?: HttpApiSchemaError
): Effect.Effect<ReadonlyArray<ProblemField>, never, HttpServerRequest | ParsedSearchParams | RouteContext> =>
  Effect.contextWith((context: Context.Context<HttpServerRequest | ParsedSearchParams | RouteContext>) => {
    const query = Context.get(context, ParsedSearchParams)
    const request = Context.get(context, HttpServerRequest)
    return Effect.map(undecoded(endpoint, failure, request), (others) =>
      [
        ...check("path", endpoint.params, Context.get(context, RouteContext).params),
        ...endpoint.query === undefined
          ? Object.keys(query).map((name) => ({ path: `query.${name}`, message: surplus }))
          : check("query", Schema.toCodecArrayFromSingle(endpoint.query), query).map((field) =>
            isRepeated(endpoint, query, field) ? { ...field, message: "Expected the parameter once" } : field
          ),
        ...others,
        ...endpoint.payload.size === 0 && hasBody(request.headers)
          ? [{ path: "body", message: "Expected no body" }]
          : []
      ].slice(0, maxIssues))
  })
