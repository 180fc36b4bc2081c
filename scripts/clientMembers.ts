/**
 * The members of answers and their kinds, from the schemas of the API. The client on `fetch` checks answers by them, and imports no schema.
 */
import type * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import { GrantLimits, OperationChanges, OperationList } from "../src/api/OperationsApi.ts"
import { ProblemDetails } from "../src/api/Problems.ts"
import { Operation } from "../src/domain/Operation.ts"

export const clientMembersFile = "src/client/answerMembers.ts"

const answers = { Operation, OperationList, OperationChanges, GrantLimits, ProblemDetails }

/** The kind of a value: its type in JSON, or an array of operations. "nullable" and "optional" stand before it. */
const kindOf = (ast: SchemaAST.AST): string => {
  if (SchemaAST.isUnion(ast)) {
    const kinds = new Set(ast.types.map(kindOf))
    const others = [...kinds].filter((kind) => kind !== "null")
    if (others.length === 1) return kinds.has("null") ? `nullable ${others[0]}` : others[0]!
  }
  if (SchemaAST.isArrays(ast)) {
    return ast.rest[0] === SchemaAST.toEncoded(Operation.ast) ? "operations" : "array"
  }
  if (SchemaAST.isLiteral(ast)) return typeof ast.literal
  if (SchemaAST.isObjects(ast)) return "object"
  const kind = ast._tag.toLowerCase()
  if (["string", "number", "boolean", "null"].includes(kind)) return kind
  throw new Error(`the client on fetch knows no kind of ${ast._tag}`)
}

/** The members of a schema, with their kinds. */
export const membersOf = (schema: Schema.Top) => {
  const ast = SchemaAST.toEncoded(schema.ast)
  if (!SchemaAST.isObjects(ast)) throw new Error(`an answer is an object, not ${ast._tag}`)
  return Object.fromEntries(ast.propertySignatures.map(({ name, type }) => [
    name,
    SchemaAST.isOptional(type) ? `optional ${kindOf(type)}` : kindOf(type)
  ]))
}

/** The text of the file. */
export const clientMembers = (): string =>
  [
    "// Written by `npm run surface` from the schemas of the API.",
    ...Object.entries(answers).flatMap(([name, schema]) => [
      "",
      `export const ${name} = {`,
      Object.entries(membersOf(schema)).map(([member, kind]) => `  ${member}: "${kind}"`).join(",\n"),
      "} as const"
    ]),
    ""
  ].join("\n")
