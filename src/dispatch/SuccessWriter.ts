/** From the values of an endpoint to responses, compiled from its success schemas. */
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as HttpBody from "effect/http/HttpBody"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import {
  getResponseEncodingSchema,
  getStatusSuccessSchema,
  getSuccessSchemas,
  getWithHeadersAnnotation,
  isWithHeadersValue
} from "./httpApiInternals.ts"
import { makeJsonEncoder } from "./JsonEncoder.ts"
import { makeOwnedResponse, OwnedHeaders } from "./OwnedResponse.ts"
import { makeReadRecord, undecided } from "./RecordDecoder.ts"

/** The response to a value. Null: the schemas may refuse it, or another one of them applies. */
type WriteSuccess = (value: unknown) => HttpServerResponse.HttpServerResponse | null

/** The headers become those of the response. */
type WriteBody = (value: unknown, headers: OwnedHeaders | undefined) => HttpServerResponse.HttpServerResponse | null

/** Whether the schema refuses each value of this kind, so that the next one applies. */
const refusesKind = ({ _tag, encoding }: SchemaAST.AST, value: unknown): boolean =>
  encoding === undefined && _tag === "Objects" && (typeof value !== "object" || value === null)

const writeBody = (schema: Schema.Top, body: Schema.Top): WriteBody => {
  const status = getStatusSuccessSchema(schema)
  const { _tag, contentType } = getResponseEncodingSchema(schema)
  if (HttpApiSchema.isNoContent(body.ast) && body.ast._tag === "Undefined") {
    return (value, headers) => value === undefined ? HttpServerResponse.empty({ status, headers }) : null
  }
  if (_tag !== "Json" || HttpApiSchema.isNoContent(body.ast)) return () => null
  const { write } = makeJsonEncoder(body as Schema.Codec<unknown>)
  return (value, headers) => {
    // Those of an endpoint take the place of those that come from the body.
    if (headers !== undefined && ("content-type" in headers || "content-length" in headers)) return null
    const text = write(value)
    if (text === null) return null
    const content = HttpBody.text(text, contentType)
    const owned = headers ?? new OwnedHeaders()
    owned["content-type"] = contentType
    owned["content-length"] = String(content.contentLength)
    return makeOwnedResponse(status, owned, content)
  }
}

interface Member {
  readonly refuses: (value: unknown) => boolean
  readonly write: WriteBody
  readonly headers: ReturnType<typeof readHeaders> | null
}

/** Headers of a response have names in lower case. Effect writes those of other schemas. */
const readHeaders = ({ ast }: Schema.Top, options: SchemaAST.ParseOptions | undefined) => {
  const flipped = SchemaAST.flip(ast)
  const areLower = SchemaAST.isObjects(flipped)
    && flipped.propertySignatures.every(({ name }) => typeof name === "string" && name === name.toLowerCase())
  return areLower
    ? makeReadRecord(flipped, options, () => new OwnedHeaders())
    : (): typeof undecided => undecided
}

/** A schema of the response. */
const compileMember = (schema: Schema.Top, options: SchemaAST.ParseOptions | undefined): Member => {
  const hasHeaders = HttpApiSchema.isWithHeaders(schema)
  const body = hasHeaders ? schema.schema : schema
  return {
    refuses: (value) => refusesKind(body.ast, value),
    write: getWithHeadersAnnotation(schema.ast) === undefined ? writeBody(schema, body) : () => null,
    headers: hasHeaders ? readHeaders(schema.headers, options) : null
  }
}

/** The first schema decides. */
const firstOf = (members: ReadonlyArray<Member>, value: unknown): Member | undefined =>
  members.find(({ refuses }) => !refuses(value))

/** Compiles the success schemas of an endpoint. `options` apply to the headers of its responses. */
export const makeWriteSuccess = (
  endpoint: HttpApiEndpoint.Top,
  options: SchemaAST.ParseOptions | undefined
): WriteSuccess => {
  const members = getSuccessSchemas(endpoint).map((schema) => compileMember(schema, options))
  const plain = members.filter(({ headers }) => headers === null)
  const withHeaders = members.filter(({ headers }) => headers !== null)
  return (value) => {
    if (withHeaders.length === 0 || !isWithHeadersValue(value)) {
      return members.length === plain.length ? firstOf(plain, value)?.write(value, undefined) ?? null : null
    }
    const member = firstOf(withHeaders, value.body)
    // The cast: headers are a record, or their schema refuses them.
    const headers = member?.headers!(value.headers as Record<string, unknown>)
    return member === undefined || headers === undecided ? null : member.write(value.body, headers)
  }
}
