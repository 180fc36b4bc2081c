/**
 * Names what does not fit a schema, and stops after 32 issues: the work must not grow with the number of mistakes in a request.
 *
 * A schema stops at its first issue, or finds all of them. So a value is decoded up to the first issue, and if there is one, the
 * members of structs and the items of arrays are decoded one by one.
 */
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import * as SchemaParser from "effect/SchemaParser"

/** Most issues of a value. An answer must not grow with the size of an invalid request. */
export const maxIssues = 32

/** The options of a schema that stops at its first issue, and takes no members that it does not declare. */
export const strict = { errors: "first", onExcessProperty: "error" } as const

/** A part of the schema as a schema. Its types are not known here. */
const schemaOf = (ast: SchemaAST.AST) => Schema.make<Schema.Codec<unknown>>(ast)

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The structure that a class, and a struct with checks, decodes. Its first issue alone tells what is wrong beyond that. */
const structureOf = (ast: SchemaAST.AST): SchemaAST.AST => ast.encoding?.length === 1 ? ast.encoding[0].to : ast

/** Whether each member or item of the schema fits by itself. */
const isPlain = ({ checks, encoding }: SchemaAST.AST): boolean => checks === undefined && encoding === undefined

/** The issue of a part. Null: it fits, or its schema waits for something, which throws here. */
const issueOf = (ast: SchemaAST.AST, value: unknown): SchemaIssue.Issue | null => {
  try {
    const result = SchemaParser.decodeUnknownResult(schemaOf(ast))(value, { ...strict, errors: "all" })
    return Result.isFailure(result) ? result.failure : null
  } catch {
    return null
  }
}

type Path = ReadonlyArray<PropertyKey>

/**
 * The issues of a value that a schema refused with `first`. It stops after `maxIssues` parts of structs and arrays that do not fit.
 * Another part, such as a union, counts as one, and all its issues are found: the limits of JSON bound them.
 */
export const firstIssues = (
  schema: Pick<Schema.Top, "ast">,
  input: unknown,
  first: SchemaIssue.Issue
): SchemaIssue.Issue => {
  const found: Array<SchemaIssue.Issue> = []
  const add = (path: Path, issue: SchemaIssue.Issue) => {
    if (found.length < maxIssues) found.push(new SchemaIssue.Pointer(path, issue))
  }

  const visitMembers = (ast: SchemaAST.Objects, record: Readonly<Record<string, unknown>>, path: Path) => {
    const declared = new Set(ast.propertySignatures.map(({ name }) => name))
    for (const name of Object.keys(record)) {
      if (found.length === maxIssues) return
      if (!declared.has(name)) add([...path, name], new SchemaIssue.UnexpectedKey(ast, record[name]))
    }
    for (const { name, type } of ast.propertySignatures) {
      if (found.length === maxIssues) return
      if (Object.hasOwn(record, name)) visit(type, record[name as string], [...path, name])
      else if (!SchemaAST.isOptional(SchemaAST.toEncoded(type))) {
        add([...path, name], new SchemaIssue.MissingKey(type.context?.annotations))
      }
    }
  }

  const visitItems = (item: SchemaAST.AST, items: ReadonlyArray<unknown>, path: Path) => {
    for (let index = 0; index < items.length && found.length < maxIssues; index++) {
      visit(item, items[index], [...path, index])
    }
  }

  /** Visits the structure. False if the schema has none that fits the value. */
  const visitStructure = (ast: SchemaAST.AST, value: unknown, path: Path): boolean => {
    if (SchemaAST.isObjects(ast) && ast.indexSignatures.length === 0 && isRecord(value)) {
      visitMembers(ast, value, path)
      return true
    }
    if (SchemaAST.isArrays(ast) && ast.elements.length === 0 && ast.rest.length === 1 && Array.isArray(value)) {
      visitItems(ast.rest[0]!, value, path)
      return true
    }
    return false
  }

  const visit = (ast: SchemaAST.AST, value: unknown, path: Path): void => {
    if (SchemaAST.isSuspend(ast) && isPlain(ast)) return visit(ast.thunk(), value, path)
    const before = found.length
    const isVisited = ast.encoding === undefined && visitStructure(ast, value, path)
    // The checks of a struct or an array apply only if its members fit.
    if (isVisited && (ast.checks === undefined || found.length > before)) return
    const issue = issueOf(ast, value)
    if (issue !== null) add(path, issue)
  }

  visitStructure(structureOf(schema.ast), input, [])
  return found.length === 0 ? first : new SchemaIssue.Composite(schema.ast, found as [SchemaIssue.Issue], input)
}

/** Decodes a value without waiting. Fails with its `firstIssues`. */
export const decodeStrictly = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) => {
  const decode = Schema.decodeUnknownExit(schema, strict)
  return (input: unknown): Exit.Exit<S["Type"], Schema.SchemaError> =>
    Exit.mapError(
      decode(input),
      ({ issue }) => new Schema.SchemaError(firstIssues(schema, input, issue))
    )
}
