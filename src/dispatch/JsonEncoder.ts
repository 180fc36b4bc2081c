/**
 * From values to JSON text, compiled from a schema.
 *
 * The interpreter of schemas makes an encoded copy of each value, and an `Exit` for each part of it; `JSON.stringify` then walks the
 * copy. The compiled encoder writes the text in one pass, with one function for each part of the schema.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"

/** The JSON of a value, "" for `undefined`, and null for a value that the schema may refuse. */
type Write = (value: unknown) => string | null

/** Turns a value into what the next part of the schema encodes. Answers `refused` for one that the schema may refuse. */
type Convert = (value: unknown) => unknown

const refused: unique symbol = Symbol()

/** A part of a schema that this module does not compile. */
class NotCompiled extends Error {}

const notCompiled = (part: string): never => {
  throw new NotCompiled(part)
}

/** The interpreter stops at the first issue by default, and drops members that a schema does not declare. */
const options: SchemaAST.ParseOptions = {}

const needsEscape = /["\\\p{Cc}\p{Cs}]/u

const quote = (text: string): string => needsEscape.test(text) ? JSON.stringify(text) : `"${text}"`

/** JSON has no `NaN` and no infinity. */
const writeNumber = (number: number): string => Number.isFinite(number) ? String(number) : "null"

/** Whether all checks hold for the value. They run as the interpreter runs them. */
const compileChecks = (ast: SchemaAST.AST, checks: SchemaAST.Checks | undefined): (value: unknown) => boolean => {
  const flat = (check: SchemaAST.Check<unknown>): ReadonlyArray<SchemaAST.Filter<unknown>> =>
    check._tag === "Filter" ? [check] : check.checks.flatMap(flat)
  const filters = (checks ?? []).flatMap(flat)
  const [only] = filters
  if (only === undefined) return () => true
  if (filters.length === 1) return (value) => only.run(value, ast, options) === undefined
  return (value) => {
    for (const filter of filters) if (filter.run(value, ast, options) !== undefined) return false
    return true
  }
}

/** The values of a part without members. */
const compileLeaf = (ast: SchemaAST.AST): (value: unknown) => boolean => {
  switch (ast._tag) {
    case "String":
      return (value) => typeof value === "string"
    case "Number":
      return (value) => typeof value === "number"
    case "Boolean":
      return (value) => typeof value === "boolean"
    case "Null":
      return (value) => value === null
    case "Undefined":
      return (value) => value === undefined
    case "Literal":
      return (value) => value === ast.literal
    case "Declaration": {
      if (ast.typeParameters.length > 0 || ast.encodingChecks !== undefined) return notCompiled("a generic declaration")
      const run = ast.run([])
      return (value) => {
        const result = run(value, ast, options)
        return Exit.isExit(result) && Exit.isSuccess(result) && result.value === value
      }
    }
    default:
      return notCompiled(ast._tag)
  }
}

/** The steps before the last part of a chain of transformations, and their result. */
const compileConvert = (ast: SchemaAST.AST): Convert => {
  const before = compileLinks(ast)
  const isLeaf = compileLeaf(ast)
  const holds = compileChecks(ast, ast.checks)
  return (value) => {
    const converted = before === null ? value : before(value)
    return converted !== refused && isLeaf(converted) && holds(converted) ? converted : refused
  }
}

/** Null: the value of the part is its own. */
const compileLinks = ({ encoding }: SchemaAST.AST): Convert | null => {
  if (encoding === undefined) return null
  const steps = encoding.toReversed().map(({ to, transformation }) => {
    if (transformation._tag === "Middleware") return notCompiled("middleware")
    const getter = transformation.decode
    const source = compileConvert(to)
    switch (getter._tag) {
      case "Passthrough":
        return source
      case "Transform":
        return (value: unknown) => {
          const converted = source(value)
          return converted === refused ? refused : getter.transform(converted)
        }
      default:
        return notCompiled(getter._tag)
    }
  })
  const [only] = steps
  if (steps.length === 1) return only!
  return (value) => steps.reduce((current, step) => current === refused ? refused : step(current), value)
}

const compileStruct = (ast: SchemaAST.Objects): Write => {
  if (ast.indexSignatures.length > 0 || ast.propertySignatures.length === 0) return notCompiled("a record")
  const members = ast.propertySignatures.map(({ name, type }) => ({
    name: typeof name === "string" && name !== "__proto__" ? name : notCompiled("a symbol as a key"),
    first: `{${JSON.stringify(name)}:`,
    next: `,${JSON.stringify(name)}:`,
    write: compile(type),
    isOptional: SchemaAST.isOptional(type)
  }))
  return (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return null
    const record = value as Readonly<Record<string, unknown>>
    let text = ""
    for (let index = 0; index < members.length; index++) {
      const { first, isOptional, name, next, write } = members[index]!
      const member = record[name]
      if (member === undefined && !(name in record)) {
        if (isOptional) continue
        return null
      }
      const written = write(member)
      if (written === null) return null
      if (written !== "") text += (text === "" ? first : next) + written
    }
    return text === "" ? "{}" : text + "}"
  }
}

const compileArray = (ast: SchemaAST.Arrays): Write => {
  const [item] = ast.rest
  if (ast.elements.length > 0 || ast.rest.length !== 1) return notCompiled("a tuple")
  const write = compile(item!)
  return (value) => {
    if (!Array.isArray(value)) return null
    let text = ""
    for (let index = 0; index < value.length; index++) {
      const written = write(value[index])
      if (written === null) return null
      text += index === 0 ? written || "null" : `,${written || "null"}`
    }
    return `[${text}]`
  }
}

const compileUnion = ({ options: { mode } = {}, types }: SchemaAST.Union): Write => {
  if (mode === "oneOf") return notCompiled("a union of which one must fit")
  if (types.every((type) => SchemaAST.isLiteral(type) && compileLinks(type) === null && type.checks === undefined)) {
    const known = new Map(types.map((type) => {
      const { literal } = type as SchemaAST.Literal
      return [literal as unknown, compile(type)(literal)]
    }))
    return (value) => known.get(value) ?? null
  }
  const members = types.map(compile)
  return (value) => {
    for (const write of members) {
      const written = write(value)
      if (written !== null) return written
    }
    return null
  }
}

/**
 * Whether the text is what a function made of a date, in the form of RFC 3339: it has no character that JSON escapes. To look at it
 * would first copy its parts into one piece.
 */
const isFormattedDate = ({ annotations, encoding }: SchemaAST.AST): boolean =>
  annotations?.["format"] === "date-time" && encoding?.length === 1 && SchemaAST.isDeclaration(encoding[0].to)

/** The text of a part, whose value has passed all but its own checks. */
const compileLocal = (ast: SchemaAST.AST): Write => {
  switch (ast._tag) {
    case "Objects":
      return compileStruct(ast)
    case "Arrays":
      return compileArray(ast)
    case "Union":
      return compileUnion(ast)
    case "Suspend": {
      let write: Write | null = null
      return (value) => (write ??= compile(ast.thunk()))(value)
    }
    case "String":
      return isFormattedDate(ast)
        ? (value) => typeof value === "string" ? `"${value}"` : null
        : (value) => typeof value === "string" ? quote(value) : null
    case "Number":
      return (value) => typeof value === "number" ? writeNumber(value) : null
    case "Boolean":
      return (value) => value === true ? "true" : value === false ? "false" : null
    case "Null":
      return (value) => value === null ? "null" : null
    case "Undefined":
      return (value) => value === undefined ? "" : null
    case "Literal": {
      if (typeof ast.literal === "bigint") return notCompiled("a bigint")
      const text = JSON.stringify(ast.literal)
      return (value) => value === ast.literal ? text : null
    }
    default:
      return notCompiled(ast._tag)
  }
}

/** The checks of the values that go into a struct, an array or a union, and of those that come out. */
const checksOf = (ast: SchemaAST.AST): SchemaAST.Checks | undefined => {
  const isComposite = SchemaAST.isObjects(ast) || SchemaAST.isArrays(ast) || SchemaAST.isUnion(ast)
  if (isComposite && ast.checks !== undefined) return notCompiled("a check of encoded members")
  return isComposite ? ast.encodingChecks : ast.checks
}

const compile = (ast: SchemaAST.AST): Write => {
  const before = compileLinks(ast)
  const local = compileLocal(ast)
  const checks = checksOf(ast)
  if (before === null && checks === undefined) return local
  const holds = compileChecks(ast, checks)
  return (value) => {
    const converted = before === null ? value : before(value)
    if (converted === refused) return null
    const written = local(converted)
    return written !== null && holds(converted) ? written : null
  }
}

const compileOrNull = (ast: SchemaAST.AST): Write | null => {
  try {
    return compile(ast)
  } catch (error) {
    if (error instanceof NotCompiled) return null
    throw error
  }
}

const writeOrNull = (write: Write, value: unknown): string | null => {
  try {
    return write(value)
  } catch {
    return null
  }
}

/** Encodes values of one schema as JSON. */
export interface JsonEncoder {
  /** The JSON of a value. Null: the schema may refuse the value, so `encode` decides. */
  readonly write: (value: unknown) => string | null
  /** The JSON of a value. Fails as the schema does. */
  readonly encode: (value: unknown) => Effect.Effect<string, Schema.SchemaError>
}

/**
 * Makes the encoder of a schema: its text is what `JSON.stringify` writes of what the schema encodes. What this module does not
 * compile, such as records and declared classes, is encoded by the interpreter.
 */
export const makeJsonEncoder = (schema: Schema.ConstraintEncoder<unknown>): JsonEncoder => {
  const compiled = compileOrNull(SchemaAST.flip(schema.ast))
  const encodeUnknown = Schema.encodeUnknownEffect(schema)
  const interpret = (value: unknown) => Effect.map(encodeUnknown(value), (encoded) => JSON.stringify(encoded))
  if (compiled === null) return { write: () => null, encode: interpret }
  // The text of `undefined` is empty, which is no JSON.
  const write = (value: unknown) => writeOrNull(compiled, value) || null
  return {
    write,
    encode: (value) => {
      const text = write(value)
      return text === null ? interpret(value) : Effect.succeed(text)
    }
  }
}
