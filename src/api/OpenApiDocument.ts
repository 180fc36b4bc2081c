/**
 * Completes the OpenAPI document with the headers and parameters of the gateway's endpoints and of mutation endpoints,
 * and with examples.
 */
import type { OpenAPISpec, OpenAPISpecOperation } from "effect/http-api/OpenApi"
import { requestIdPattern } from "../domain/RequestId.ts"
import { pageMediaType } from "./HasPages.ts"
import { exampleOf, exampleOperation, exampleProblem, readPath } from "./OpenApiExamples.ts"
import { type ProblemCode, problemKinds } from "./ProblemKinds.ts"
import { problemMediaType } from "./Problems.ts"

type Responses = OpenAPISpecOperation["responses"]
type Headers = Record<string, { readonly schema: object; readonly description?: string; readonly required?: boolean }>

const requestId = { type: "string", pattern: requestIdPattern.source }

/** The codes that refuse a credential or its grant. */
const refusals: ReadonlyArray<ProblemCode> = [
  "missing_credentials",
  "invalid_token",
  "invalid_dpop_proof",
  "use_dpop_nonce",
  "grant_revoked",
  "client_inactive",
  "insufficient_scope",
  "provider_disconnected",
  "rate_limited",
  "authorization_unavailable"
]

/** The codes of single endpoints, besides the codes of all endpoints. */
const codesOf: Readonly<Record<string, ReadonlyArray<ProblemCode>>> = {
  listOperations: [...refusals, "invalid_page_token"],
  listChanges: [...refusals, "change_token_expired"],
  getOperation: [...refusals, "operation_not_found"],
  getReadiness: ["not_ready"],
  getProblem: ["route_not_found"]
}

const codesOfAll: ReadonlyArray<ProblemCode> = [
  "malformed_request",
  "not_acceptable",
  "request_timeout",
  "payload_too_large",
  "uri_too_long",
  "invalid_request",
  "headers_too_large",
  "internal_error",
  "response_contract_failed",
  "service_unavailable"
]

/** The codes of mutation endpoints, besides the codes of all endpoints. */
const codesOfMutations: ReadonlyArray<ProblemCode> = [
  ...refusals,
  "idempotency_key_required",
  "unsupported_media_type",
  "idempotency_key_reused"
]

const text = (description: string) => ({ schema: { type: "string" }, description, required: true })
const seconds = (description: string, required: boolean) => ({
  schema: { type: "integer", minimum: 1 },
  description,
  required
})

/** Headers of a status, on all endpoints. */
const headersOf = (status: string): Headers => ({
  "X-Request-Id": {
    schema: requestId,
    description: "Correlates the response with the server's logs.",
    required: true
  },
  ...status === "401" || status === "403"
    ? { "WWW-Authenticate": text("Challenges, with the URL of the resource's metadata (RFC 9110, RFC 9728).") }
    : {},
  ...status === "401"
    ? { "DPoP-Nonce": { schema: { type: "string" }, description: "The nonce that proofs need, with use_dpop_nonce." } }
    : {},
  ...status === "429" || status === "503"
    ? { "Retry-After": seconds("Seconds to wait before the request is repeated.", true) }
    : {},
  ...Number(status) >= 400 ? { "Cache-Control": text("Problems are never stored.") } : {}
})

/** Headers of the endpoints that require a credential, if the gateway has quotas. */
const quotaHeadersOf = (status: string): Headers => ({
  RateLimit: {
    ...text(
      "What is left of the quota, and the seconds until it is whole again (draft-ietf-httpapi-ratelimit-headers)."
    ),
    required: status === "429"
  },
  "RateLimit-Policy": {
    ...text("The quota: requests, the seconds for which they are, and how many may come at once."),
    required: status === "429"
  }
})

const canonicalNames: Readonly<Record<string, string>> = {
  etag: "ETag",
  "cache-control": "Cache-Control",
  "idempotent-replayed": "Idempotent-Replayed",
  location: "Location",
  prefer: "Prefer",
  "preference-applied": "Preference-Applied",
  "retry-after": "Retry-After",
  vary: "Vary"
}

const completeHeaders = (declared: Headers = {}): Headers =>
  Object.fromEntries(
    Object.entries(declared).map(([name, { required = false, schema }]) => {
      const { description = "", ...rest } = schema as { readonly description?: string }
      return [
        canonicalNames[name] ?? name,
        name === "retry-after"
          ? seconds("Seconds to wait before the next read. Absent once the state is final.", required)
          : { schema: rest, description, required }
      ]
    })
  )

/** What the document says of one endpoint, besides its schemas. */
interface Completion {
  /** The codes of the endpoint, besides those of all endpoints. */
  readonly codes: ReadonlyArray<ProblemCode>
  /** A response in JSON. */
  readonly example: unknown
  /** The path that the examples of its problems name. */
  readonly instance: string
}

const completeResponses = (responses: Responses, completion: Completion): void => {
  const codes = [...completion.codes, ...codesOfAll]
  for (const [status, response] of Object.entries(responses)) {
    const known = codes.filter((code) => String(problemKinds[code].status) === status)
    if (known.length > 0) response.description = `${known.map((code) => problemKinds[code].title).join(", or ")}.`
    response.headers = {
      ...completeHeaders(response.headers as Headers | undefined),
      ...headersOf(status),
      ...codes.includes("rate_limited") ? quotaHeadersOf(status) : {}
    } as never
    for (const [mediaType, content] of Object.entries(response.content ?? {})) {
      if (mediaType === pageMediaType) continue
      Object.assign(
        content,
        mediaType === problemMediaType
          ? { examples: Object.fromEntries(known.map((code) => [code, exampleProblem(code, completion.instance)])) }
          : { example: completion.example }
      )
    }
  }
}

const boundDescriptions: Readonly<Record<string, string>> = {
  created_after: "Only operations created after this instant, exclusive. RFC 3339 with any offset.",
  created_before: "Only operations created before this instant, exclusive. RFC 3339 with any offset."
}

const completeParameters = (operation: OpenAPISpecOperation): void => {
  for (const parameter of operation.parameters) {
    // The schema says text, like every query parameter; clients should see a number.
    const description = boundDescriptions[parameter.name]
    if (description !== undefined) Object.assign(parameter, { description })
    if (parameter.name === "prefer") Object.assign(parameter, { name: canonicalNames["prefer"], example: "wait=30" })
    if (parameter.name === "page_size") {
      parameter.schema = { type: "integer", minimum: 1, maximum: 100, default: 100 }
      Object.assign(parameter, { description: "Operations a page." })
    }
  }
  operation.parameters.push(
    {
      name: "X-Request-Id",
      in: "header",
      required: false,
      schema: requestId,
      description: "Id to correlate the request with. Unsafe values are replaced by a generated UUID."
    } as (typeof operation.parameters)[number]
  )
}

/**
 * Replaces `anyOf` with one member by that member, and `number` by `integer` for statuses: linters and generators
 * reject both.
 */
const unwrapSingleChoices = (node: unknown): unknown => {
  if (Array.isArray(node)) return node.map(unwrapSingleChoices)
  if (typeof node !== "object" || node === null) return node
  const { anyOf, ...rest } = node as { readonly anyOf?: ReadonlyArray<object> }
  const flat = { ...anyOf?.length === 1 ? { ...anyOf[0], ...rest } : node } as { type?: string; enum?: Array<unknown> }
  if (flat.type === "number" && flat.enum?.every(Number.isInteger)) flat.type = "integer"
  return Object.fromEntries(Object.entries(flat).map(([key, value]) => [key, unwrapSingleChoices(value)]))
}

/** Completes the operation of a mutation endpoint at `path`. */
export const completeMutation = (operation: OpenAPISpecOperation, path: string): OpenAPISpecOperation => {
  const example = { ...exampleOperation, state: "accepted", submission_uncertain: false, revision: 1 }
  for (const parameter of operation.parameters) {
    if (parameter.name === "idempotency-key") parameter.name = "Idempotency-Key"
  }
  completeParameters(operation)
  completeResponses(operation.responses, { codes: codesOfMutations, example, instance: path })
  return operation
}

/** How a client presents an access token. */
const securitySchemes: OpenAPISpec["components"]["securitySchemes"] = {
  bearer: {
    type: "http",
    scheme: "bearer",
    description: "An access token (RFC 6750), where it is bound to no sender."
  },
  dpop: {
    type: "http",
    scheme: "DPoP",
    description:
      "An access token that is bound to a key, with a proof of that key for this request in the DPoP header (RFC 9449)."
  }
}

/** Adds the schemes to the endpoints behind `Gate`: those that refuse a credential with a problem. */
const completeSecurity = ({ paths }: OpenAPISpec): void => {
  for (const { delete: remove, get, patch, post, put } of Object.values(paths)) {
    for (const operation of [get, post, put, patch, remove]) {
      const refusal = operation?.responses["401"]
      if (
        operation !== undefined && refusal?.content?.[problemMediaType] !== undefined && operation.security.length === 0
      ) {
        operation.security = Object.keys(securitySchemes).map((name) => ({ [name]: [] }))
      }
    }
  }
}

/**
 * Completes the document that Effect derives from the contract. Of the endpoints of applications, it completes the security
 * of those behind `Gate`.
 */
export const completeDocument = (document: OpenAPISpec): OpenAPISpec => {
  completeSecurity(document)
  for (const { get: operation } of Object.values(document.paths)) {
    const id = operation?.operationId ?? ""
    if (operation === undefined || !Object.hasOwn(exampleOf, id)) continue
    completeParameters(operation)
    completeResponses(operation.responses, { codes: codesOf[id] ?? [], example: exampleOf[id], instance: readPath })
  }
  const components = unwrapSingleChoices(document.components) as OpenAPISpec["components"]
  return {
    ...document,
    components: { ...components, securitySchemes: { ...securitySchemes, ...components.securitySchemes } }
  }
}
