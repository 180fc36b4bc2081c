/**
 * Completes the OpenAPI document that Effect derives from a contract by what the definitions say besides: the codes of declared
 * problems, their headers and examples, and what a gate adds to each of its endpoints. It knows no endpoint and no header.
 *
 * Annotations of schemas tell the rest. Words of a header's name begin with a capital, unless its `title` is another spelling. A header
 * of a response that is `isAlwaysSent` is required, although clients read the response without it.
 * `examples` of a response hold values of its type, and the schema encodes the first one.
 */
import * as Context from "effect/Context"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import type { OpenAPISpec, OpenAPISpecOperation } from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import type { RequestId } from "../domain/RequestId.ts"
import { HasPages, pageHeaders, pageMediaType } from "./HasPages.ts"
import type { GateContract } from "./Middleware.ts"
import { type ProblemCode, type ProblemKind, problemKinds } from "./ProblemKinds.ts"
import { declaredProblems, encodeProblem, makeProblem, problemMediaType } from "./Problems.ts"

type JsonSchema = Readonly<Record<string, unknown>>

/** A header or a parameter of the document. */
interface Described {
  readonly name: string
  readonly in?: string
  readonly schema: JsonSchema
  readonly required: boolean
  readonly description?: string
}

/** Completes a header or a parameter: its description stands beside its schema. */
const describe = ({ schema: { description, title, ...schema }, ...rest }: Described): Described => ({
  ...rest,
  ...rest.in === "header"
    ? { name: String(title ?? rest.name.replaceAll(/\b[a-z]/g, (letter) => letter.toUpperCase())) }
    : {},
  ...typeof description === "string" ? { description } : {},
  schema
})

/** The `headers` of a response. */
const headersOf = (headers: ReadonlyArray<Described>) =>
  Object.fromEntries(headers.map((header) => {
    const { in: _, name, ...described } = describe({ ...header, in: "header" })
    return [name, described]
  }))

const jsonSchemaOf = (ast: SchemaAST.AST): JsonSchema => Schema.toJsonSchemaDocument(Schema.make(ast)).schema

/** The headers of a definition. */
const fieldsOf = (fields: Schema.Struct.Fields): ReadonlyArray<Described> =>
  Object.entries(fields).map(([name, { ast }]) => ({
    name,
    in: "header",
    schema: jsonSchemaOf(ast),
    required: !SchemaAST.isOptional(ast)
  }))

const membersOf = (members: Schema.Top | undefined): ReadonlyArray<SchemaAST.PropertySignature> => {
  const ast = members === undefined ? undefined : SchemaAST.toType(members.ast)
  return ast !== undefined && SchemaAST.isObjects(ast) ? ast.propertySignatures : []
}

/** The numbers among the members. On the wire they are text, like all parameters and headers; clients should see a number. */
const numbersOf = (members: Schema.Top | undefined): ReadonlyMap<string, JsonSchema> =>
  new Map(
    membersOf(members).flatMap(({ name, type }) => SchemaAST.isNumber(type) ? [[String(name), jsonSchemaOf(type)]] : [])
  )

const exampleProblem = (code: ProblemCode, path: string) => {
  const { fields, title }: ProblemKind = problemKinds[code]
  const id = "7f9c24e8-3b12-4c3a-9a57-2f0f6f1f7a10" as RequestId
  return {
    summary: title,
    value: encodeProblem(makeProblem("https://gateway.example", { id, path }, code, { fields }))
  }
}

type Response = OpenAPISpecOperation["responses"][number]

/** Completes a response that has problems with these codes. */
const completeProblems = (response: Response, codes: ReadonlyArray<ProblemCode>, path: string): void => {
  const statuses = codes.map((code) => problemKinds[code].status)
  response.description = `${codes.map((code) => problemKinds[code].title).join(", or ")}.`
  Object.assign(response.content![problemMediaType]!, {
    schema: {
      allOf: [
        { $ref: "#/components/schemas/ProblemDetails" },
        { properties: { status: { const: statuses[0] }, code: { enum: codes } } }
      ]
    },
    examples: Object.fromEntries(codes.map((code) => [code, exampleProblem(code, path)]))
  })
}

/** Completes the response of a success. */
const completeSuccess = (response: Response, declared: Schema.Top, hasPages: boolean): void => {
  const { headers, schema } = HttpApiSchema.isWithHeaders(declared)
    ? declared
    : { headers: undefined, schema: declared }
  const numbers = numbersOf(headers)
  const sent = membersOf(headers).filter(({ type }) => type.annotations?.["isAlwaysSent"]).map(({ name }) => name)
  // The types of the document in Effect lack most members of headers, and `example`.
  const derived = Object.entries(response.headers ?? {}) as unknown as ReadonlyArray<[string, Omit<Described, "name">]>
  response.headers = headersOf(
    derived.map(([name, header]) => ({
      ...header,
      name,
      schema: numbers.get(name) ?? header.schema,
      required: header.required || sent.includes(name)
    }))
  ) as never
  if (hasPages) Object.assign(response.content!, { [pageMediaType]: { schema: { type: "string" } } })
  const content = response.content?.["application/json"]
  const [example] = [schema.ast.context?.annotations, SchemaAST.resolve(schema.ast)].flatMap((annotations) =>
    annotations?.["examples"] ?? []
  )
  if (content === undefined || example === undefined) return
  Object.assign(content, { example: Schema.encodeUnknownSync(schema as Schema.Codec<unknown>)(example) })
}

/** Completes the document of an API. It may have been completed before, as a part of another API. */
export const completeDocument = (document: OpenAPISpec, api: HttpApi.Top): OpenAPISpec => {
  const { securitySchemes } = document.components
  HttpApi.reflect(api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, errors, middleware, successes }) => {
      const path = endpoint.path.replaceAll(/:(\w+)/g, "{$1}")
      const operation = document.paths[path]?.[endpoint.method.toLowerCase() as "get"]
      if (operation === undefined) return
      const gates = [...middleware].flatMap((one) => "contract" in one ? [one.contract as GateContract] : [])
      const numbers = new Map([...numbersOf(endpoint.query), ...numbersOf(endpoint.headers)])
      const parameters = (operation.parameters as ReadonlyArray<Described>).map((parameter) =>
        describe({ ...parameter, schema: numbers.get(parameter.name) ?? parameter.schema })
      )
      const added = gates.flatMap(({ requestHeaders }) => fieldsOf(requestHeaders)).map(describe)
      operation.parameters = [
        ...parameters.filter(({ name }) => !added.some((header) => header.name === name)),
        ...added
      ] as typeof operation.parameters
      const hasPages = Context.get(endpoint.annotations, HasPages)
      for (const [status, [schema]] of successes) completeSuccess(operation.responses[status]!, schema, hasPages)
      for (const [status, response] of Object.entries(operation.responses)) {
        const declared = (errors.get(Number(status)) ?? []).flatMap(({ ast }) => declaredProblems(ast) ?? [])
        if (declared.length > 0) completeProblems(response, [...new Set(declared.flatMap(({ codes }) => codes))], path)
        Object.assign(
          response.headers ??= {},
          headersOf(
            [
              ...hasPages ? [pageHeaders] : [],
              ...gates.map((gate) => gate.responseHeaders),
              ...declared.map(({ headers }) => headers)
            ].flatMap(fieldsOf)
          )
        )
      }
      const schemes: GateContract["securitySchemes"] = Object.assign({}, ...gates.map((gate) => gate.securitySchemes))
      if (operation.security.length === 0) operation.security = Object.keys(schemes).map((name) => ({ [name]: [] }))
      Object.assign(securitySchemes, { ...schemes, ...securitySchemes })
    }
  })
  return document
}
