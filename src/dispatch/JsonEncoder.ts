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
import { timestampText } from "../domain/Timestamp.ts"

/** The JSON of a value, "" for `undefined`, and null for a value that the schema refuses. It throws if it cannot decide. */
type Write = (value: unknown) => string | null

/** Turns a value into what the next part of the schema encodes. Answers `refused` for one that the schema refuses. */
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

/** The JSON of each value of a part that has few values. Null: it has many, or its members convert or check their values. */
const textsOf = (ast: SchemaAST.AST): ReadonlyArray<readonly [unknown, string]> | null => {
  switch (ast._tag) {
    case "Boolean":
      return [[true, "true"], [false, "false"]]
    case "Null":
      return [[null, "null"]]
    case "Undefined":
      return [[undefined, ""]]
    case "Literal":
      return typeof ast.literal === "bigint" ? null : [[ast.literal, JSON.stringify(ast.literal)]]
    case "Union": {
      const ofMembers = ast.types.map((type) =>
        type.encoding || type.checks || SchemaAST.isUnion(type) ? null : textsOf(type)
      )
      return ast.options?.mode !== "oneOf" && ofMembers.every((texts) => texts !== null) ? ofMembers.flat() : null
    }
    default:
      return null
  }
}

const compileStruct = (ast: SchemaAST.Objects): Write => {
  if (ast.indexSignatures.length > 0 || ast.propertySignatures.length === 0) return notCompiled("a record")
  const types = Object.fromEntries(
    ast.propertySignatures.map(({ name, type }) =>
      typeof name === "string" && name !== "__proto__" ? [name, type] as const : notCompiled("such a key")
    )
  )
  // In the order that an object gives to its members, in which `JSON.stringify` writes them.
  const members = Object.entries(types).map(([name, type]) => ({
    name,
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
      text += (index === 0 ? "[" : ",") + (written || "null")
    }
    return text === "" ? "[]" : text + "]"
  }
}

const compileUnion = ({ options: { mode } = {}, types }: SchemaAST.Union): Write => {
  if (mode === "oneOf") return notCompiled("a union of which one must fit")
  const members = types.map(compile)
  return (value) => {
    for (let index = 0; index < members.length; index++) {
      const written = members[index]!(value)
      if (written !== null) return written
    }
    return null
  }
}

/** The text of a timestamp has nothing to escape. To look for that would first copy its parts into one piece. */
const isTimestamp = ({ encoding }: SchemaAST.AST): boolean => encoding?.[0].transformation.decode === timestampText

/** The text of a part, before its checks. */
const compileUnchecked = (ast: SchemaAST.AST): Write => {
  const texts = textsOf(ast)
  if (texts !== null) {
    const known = new Map(texts)
    return (value) => known.get(value) ?? null
  }
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
      return isTimestamp(ast)
        ? (value) => typeof value === "string" ? `"${value}"` : null
        : (value) => typeof value === "string" ? quote(value) : null
    case "Number":
      // JSON has no `NaN` and no infinity.
      return (value) => typeof value !== "number" ? null : Number.isFinite(value) ? String(value) : "null"
    case "Declaration": {
      // Only a source of transformations: `compile` takes none.
      if (ast.typeParameters.length > 0 || ast.encodingChecks !== undefined) return notCompiled("a generic declaration")
      const run = ast.run([])
      return (value) => {
        const result = run(value, ast, options)
        // The end of the whole `write`: another member of a union must not take such a value.
        if (!Exit.isExit(result)) return notCompiled("a declaration that waits")
        if (result._tag === "Failure") return null
        return result.value === value ? "" : notCompiled("a declaration that converts")
      }
    }
    default:
      return notCompiled(ast._tag)
  }
}

const isComposite = (ast: SchemaAST.AST) =>
  SchemaAST.isObjects(ast) || SchemaAST.isArrays(ast) || SchemaAST.isUnion(ast)

/** The text of a part that passes its checks. They run as the interpreter runs them. */
const compilePart = (ast: SchemaAST.AST): Write => {
  if (isComposite(ast) && ast.checks !== undefined) return notCompiled("a check of encoded members")
  const flat = (check: SchemaAST.Check<unknown>): ReadonlyArray<SchemaAST.Filter<unknown>> =>
    check._tag === "Filter" ? [check] : check.checks.flatMap(flat)
  const write = compileUnchecked(ast)
  return (isComposite(ast) ? ast.encodingChecks ?? [] : ast.checks ?? []).flatMap(flat).reduce<Write>(
    (before, filter) => (value) => {
      const written = before(value)
      return written !== null && filter.run(value, ast, options) === undefined ? written : null
    },
    write
  )
}

/** The values of a part that converts them, but not their members. */
const compileSource = (ast: SchemaAST.AST): Convert => {
  if (isComposite(ast) || SchemaAST.isSuspend(ast)) return notCompiled("a transformation of members")
  const before = compileLinks(ast)
  const write = compilePart(ast)
  return (value) => {
    const converted = before === null ? value : before(value)
    return converted === refused || write(converted) === null ? refused : converted
  }
}

/** The transformations before a part. Null: the value of the part is its own. */
const compileLinks = ({ encoding }: SchemaAST.AST): Convert | null =>
  (encoding ?? []).reduceRight<Convert | null>((before, { to, transformation }) => {
    if (transformation._tag === "Middleware") return notCompiled("middleware")
    const getter = transformation.decode
    if (getter._tag !== "Passthrough" && getter._tag !== "Transform") return notCompiled(getter._tag)
    const source = compileSource(to)
    return (value) => {
      const given = before === null ? value : before(value)
      const converted = given === refused ? refused : source(given)
      return converted === refused || getter._tag === "Passthrough" ? converted : getter.transform(converted)
    }
  }, null)

const compile = (ast: SchemaAST.AST): Write => {
  if (SchemaAST.isDeclaration(ast)) return notCompiled("a value without an encoding")
  const before = compileLinks(ast)
  const write = compilePart(ast)
  if (before === null) return write
  return (value) => {
    const converted = before(value)
    return converted === refused ? null : write(converted)
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
