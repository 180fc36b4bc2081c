/**
 * The code of an encoder, generated from a schema: one function for each struct, array and union. All else stands in the function that
 * needs it, so V8 optimizes it for the values that it meets there. From `Struct({ id: String.check(isUUID()), at: Timestamp })`:
 *
 * ```js
 * const f0 = (v0) => {
 *   if (typeof v0 !== "object" || v0 === null || Array.isArray(v0)) return null
 *   const v1 = v0["id"]
 *   if (v1 === undefined && !("id" in v0)) return null
 *   if (typeof v1 !== "string") return null
 *   if (c0.run(v1, c1, options) !== undefined) return null
 *   const v2 = v0["at"]
 *   if (v2 === undefined && !("at" in v0)) return null
 *   if (!c2(v2)) return null
 *   const v3 = c3(v2)
 *   if (typeof v3 !== "string") return null
 *   return "{\"id\":\"" + escape(v1) + "\",\"at\":\"" + v3 + "\"}"
 * }
 * ```
 *
 * A function answers null for a value that the schema refuses, "" for `undefined`, and throws if it cannot decide. `c0` and its like are
 * parts of the schema, such as filters. No text of a schema becomes code: texts are literals, written by `JSON.stringify`.
 */
import * as Exit from "effect/Exit"
import * as SchemaAST from "effect/SchemaAST"

/** The JSON of a value, "" for `undefined`, and null for a value that the schema refuses. It throws if it cannot decide. */
export type Write = (value: unknown) => string | null

/** A part of a schema that this module does not compile. */
export class NotCompiled extends Error {}

const notCompiled = (part: string): never => {
  throw new NotCompiled(part)
}

/** The interpreter stops at the first issue by default, and drops members that a schema does not declare. */
const options: SchemaAST.ParseOptions = {}

/** Well-formed pairs of surrogates need no escape: to look for them costs more than `JSON.stringify` of the few texts that have some. */
const mayNeedEscape = /[^ !#-[\]-\ud7ff\ue000-\uffff]/

/** What stands between the quotes of a JSON string. */
const escape = (text: string): string => mayNeedEscape.test(text) ? JSON.stringify(text).slice(1, -1) : text

/** A piece of code that is a text. `yes` and `no` are the texts of a condition. */
type Part =
  | { readonly literal: string }
  | { readonly expression: string }
  | { readonly condition: string; readonly yes: string; readonly no: string }

/** The code that writes a value, after the statements that check and convert it. */
interface Text {
  readonly parts: ReadonlyArray<Part>
  /** Whether it is empty for some value, so that a struct leaves out the member. */
  readonly mayBeEmpty: boolean
}

const literal = (text: string): Text => ({ parts: [{ literal: text }], mayBeEmpty: text === "" })

const expression = (code: string, mayBeEmpty = false): Text => ({ parts: [{ expression: code }], mayBeEmpty })

const concat = (...texts: ReadonlyArray<Text>): Text => ({
  parts: texts.flatMap(({ parts }) => parts),
  mayBeEmpty: texts.every(({ mayBeEmpty }) => mayBeEmpty)
})

/** The expression of a text. A literal joins the one before, or the texts of a condition after it: V8 makes an object for each piece. */
const toCode = ({ parts }: Text): string => {
  const codes: Array<string> = []
  let open = ""
  const close = () => {
    if (open !== "") codes.push(JSON.stringify(open))
    open = ""
  }
  for (const part of parts) {
    if ("literal" in part) {
      open += part.literal
    } else if ("condition" in part) {
      const { condition, no, yes } = part
      codes.push(`(${condition} ? ${JSON.stringify(open + yes)} : ${JSON.stringify(open + no)})`)
      open = ""
    } else {
      close()
      codes.push(part.expression)
    }
  }
  close()
  return codes.length === 0 ? "\"\"" : codes.join(" + ")
}

/** The JSON of each value of a part that has few values. Null: it has many, or its members convert or check their values. */
const textsOf = (ast: SchemaAST.AST): ReadonlyArray<readonly [unknown, string]> | null => {
  switch (ast._tag) {
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

/** Whether a value is one of a declaration, which is only a source of transformations: alone it has no encoding. */
const guardOf = (ast: SchemaAST.Declaration): (value: unknown) => boolean => {
  if (ast.typeParameters.length > 0 || ast.encodingChecks !== undefined) return notCompiled("a generic declaration")
  const run = ast.run([])
  return (value) => {
    const result = run(value, ast, options) as Exit.Exit<unknown>
    // First: V8 reads members of known objects sooner than it finds out whether an object is an `Exit`.
    if (result._tag === "Success" && result.value === value) return true
    // The end of the whole function: another member of a union must not take such a value.
    if (!Exit.isExit(result)) return notCompiled("a declaration that waits")
    return result._tag === "Success" && notCompiled("a declaration that converts")
  }
}

/**
 * Whether the schema of a string promises, by the annotation `isPlainText`, that its texts have nothing to escape. To look for that would
 * first copy the parts of a text into one piece.
 */
const isPlainText = (ast: SchemaAST.AST): boolean => SchemaAST.resolve(ast)?.["isPlainText"] === true

const isComposite = (ast: SchemaAST.AST) =>
  SchemaAST.isObjects(ast) || SchemaAST.isArrays(ast) || SchemaAST.isUnion(ast)

const filtersOf = (check: SchemaAST.Check<unknown>): ReadonlyArray<SchemaAST.Filter<unknown>> =>
  check._tag === "Filter" ? [check] : check.checks.flatMap(filtersOf)

/** A member of a struct: its name as code, its variable, the statements that check and convert it, and its text. */
interface Member {
  readonly key: string
  readonly member: string
  readonly checks: ReadonlyArray<string>
  readonly text: Text
  readonly isOptional: boolean
}

/** The statements of a struct that always has all its members. */
const allMembers = (record: string, members: ReadonlyArray<Member>): ReadonlyArray<string> => [
  ...members.flatMap(({ checks, key, member }) => [
    `const ${member} = ${record}[${key}]`,
    `if (${member} === undefined && !(${key} in ${record})) return null`,
    ...checks
  ]),
  `return ${
    toCode(
      concat(
        ...members.flatMap(({ key, text }, index) => [literal(`${index === 0 ? "{" : ","}${key}:`), text]),
        literal("}")
      )
    )
  }`
]

/** The statements of a struct that may leave out members: optional ones that are absent, and those whose value is `undefined`. */
const someMembers = (record: string, members: ReadonlyArray<Member>): ReadonlyArray<string> => [
  "let text = \"\"",
  ...members.flatMap(({ checks, isOptional, key, member, text }) => [
    `const ${member} = ${record}[${key}]`,
    `if (${member} !== undefined || ${key} in ${record}) {`,
    ...checks,
    ...text.mayBeEmpty ? [`if (${toCode(text)} !== "")`] : [],
    `text += (text === "" ? "{" : ",") + ${toCode(concat(literal(`${key}:`), text))}`,
    isOptional ? "}" : "} else return null"
  ]),
  "return text === \"\" ? \"{}\" : text + \"}\""
]

/** What a function does with a value that the schema refuses: it ends, or tries the next member of a union. */
type Refuse = "return null" | `break ${string}`

/** Generates the functions of one schema. Its methods add statements to those of a function, and return the name or text of a value. */
class Generator {
  readonly #constants: Array<unknown> = []
  readonly #functions: Array<string> = []
  #variables = 0

  /** The encoder of a schema. */
  encoder(ast: SchemaAST.AST): Write {
    const value = this.#variable()
    const statements: Array<string> = []
    const text = this.#value(ast, value, statements, "return null")
    const source = [
      "\"use strict\"",
      ...this.#functions,
      `return (${value}) => {`,
      ...statements,
      `return ${toCode(text)}`,
      "}"
    ].join("\n")
    const names = this.#constants.map((_, index) => `c${index}`)
    return new Function("escape", "options", ...names, source)(escape, options, ...this.#constants) as Write
  }

  #variable(): string {
    return `v${this.#variables++}`
  }

  #constant(value: unknown): string {
    const known = this.#constants.indexOf(value)
    return `c${known === -1 ? this.#constants.push(value) - 1 : known}`
  }

  /** The call of a function with these statements, which return its text or null. */
  #call(
    value: string,
    statements: Array<string>,
    refuse: Refuse,
    body: (value: string, statements: Array<string>) => boolean
  ): Text {
    const parameter = this.#variable()
    const own: Array<string> = []
    const mayBeEmpty = body(parameter, own)
    const name = `f${this.#functions.length}`
    this.#functions.push([`const ${name} = (${parameter}) => {`, ...own, "}"].join("\n"))
    return this.#callOf(name, value, statements, refuse, mayBeEmpty)
  }

  #callOf(name: string, value: string, statements: Array<string>, refuse: Refuse, mayBeEmpty: boolean): Text {
    const text = this.#variable()
    statements.push(`const ${text} = ${name}(${value})`, `if (${text} === null) ${refuse}`)
    return expression(text, mayBeEmpty)
  }

  /** A value of a schema. */
  #value(ast: SchemaAST.AST, value: string, statements: Array<string>, refuse: Refuse): Text {
    if (SchemaAST.isDeclaration(ast)) return notCompiled("a value without an encoding")
    return this.#part(ast, this.#converted(ast, value, statements, refuse), statements, refuse)
  }

  /** The value after the transformations of a part. */
  #converted({ encoding }: SchemaAST.AST, value: string, statements: Array<string>, refuse: Refuse): string {
    return (encoding ?? []).reduceRight((given, { to, transformation }) => {
      if (transformation._tag === "Middleware") return notCompiled("middleware")
      const getter = transformation.decode
      if (getter._tag !== "Passthrough" && getter._tag !== "Transform") return notCompiled(getter._tag)
      if (isComposite(to) || SchemaAST.isSuspend(to)) return notCompiled("a transformation of members")
      const source = this.#converted(to, given, statements, refuse)
      // For its checks. The part of a transformation is not written.
      this.#part(to, source, statements, refuse)
      if (getter._tag === "Passthrough") return source
      const converted = this.#variable()
      statements.push(`const ${converted} = ${this.#constant(getter.transform)}(${source})`)
      return converted
    }, value)
  }

  /** A part that passes its checks. They run as the interpreter runs them. */
  #part(ast: SchemaAST.AST, value: string, statements: Array<string>, refuse: Refuse): Text {
    if (isComposite(ast) && ast.checks !== undefined) return notCompiled("a check of encoded members")
    const text = this.#unchecked(ast, value, statements, refuse)
    for (const filter of (isComposite(ast) ? ast.encodingChecks ?? [] : ast.checks ?? []).flatMap(filtersOf)) {
      const run = `${this.#constant(filter)}.run(${value}, ${this.#constant(ast)}, options)`
      statements.push(`if (${run} !== undefined) ${refuse}`)
    }
    return text
  }

  #unchecked(ast: SchemaAST.AST, value: string, statements: Array<string>, refuse: Refuse): Text {
    const texts = textsOf(ast)
    if (texts?.length === 1) {
      const [[only, text]] = texts
      statements.push(`if (${value} !== ${this.#constant(only)}) ${refuse}`)
      return literal(text)
    }
    if (texts !== null) {
      const text = this.#variable()
      statements.push(
        `const ${text} = ${this.#constant(new Map(texts))}.get(${value})`,
        `if (${text} === undefined) ${refuse}`
      )
      return expression(text, texts.some(([, text]) => text === ""))
    }
    switch (ast._tag) {
      case "Objects":
        return this.#struct(ast, value, statements, refuse)
      case "Arrays":
        return this.#array(ast, value, statements, refuse)
      case "Union":
        return this.#union(ast, value, statements, refuse)
      case "Suspend": {
        let write: Write | null = null
        const later: Write = (value) => (write ??= generateEncoder(ast.thunk()))(value)
        return this.#callOf(this.#constant(later), value, statements, refuse, true)
      }
      case "String":
        statements.push(`if (typeof ${value} !== "string") ${refuse}`)
        return concat(literal("\""), expression(isPlainText(ast) ? value : `escape(${value})`), literal("\""))
      case "Boolean":
        statements.push(`if (typeof ${value} !== "boolean") ${refuse}`)
        return { parts: [{ condition: value, yes: "true", no: "false" }], mayBeEmpty: false }
      case "Number":
        statements.push(`if (typeof ${value} !== "number") ${refuse}`)
        // JSON has no `NaN` and no infinity.
        return expression(`(Number.isFinite(${value}) ? String(${value}) : "null")`)
      case "Declaration":
        statements.push(`if (!${this.#constant(guardOf(ast))}(${value})) ${refuse}`)
        return literal("")
      default:
        return notCompiled(ast._tag)
    }
  }

  #struct(ast: SchemaAST.Objects, value: string, statements: Array<string>, refuse: Refuse): Text {
    if (ast.indexSignatures.length > 0 || ast.propertySignatures.length === 0) return notCompiled("a record")
    const types = Object.fromEntries(
      ast.propertySignatures.map(({ name, type }) =>
        typeof name === "string" && name !== "__proto__" ? [name, type] as const : notCompiled("such a key")
      )
    )
    return this.#call(value, statements, refuse, (record, own) => {
      own.push(`if (typeof ${record} !== "object" || ${record} === null || Array.isArray(${record})) return null`)
      // In the order that an object gives to its members, in which `JSON.stringify` writes them.
      const members = Object.entries(types).map(([name, type]) => {
        const member = this.#variable()
        const checks: Array<string> = []
        const text = this.#value(type, member, checks, "return null")
        return { key: JSON.stringify(name), member, checks, text, isOptional: SchemaAST.isOptional(type) }
      })
      const areAllWritten = members.every(({ isOptional, text }) => !isOptional && !text.mayBeEmpty)
      own.push(...areAllWritten ? allMembers(record, members) : someMembers(record, members))
      return false
    })
  }

  #array(ast: SchemaAST.Arrays, value: string, statements: Array<string>, refuse: Refuse): Text {
    const [item] = ast.rest
    if (ast.elements.length > 0 || ast.rest.length !== 1) return notCompiled("a tuple")
    return this.#call(value, statements, refuse, (items, own) => {
      const element = this.#variable()
      const checks: Array<string> = []
      const text = this.#value(item!, element, checks, "return null")
      own.push(
        `if (!Array.isArray(${items})) return null`,
        "let text = \"\"",
        `for (let index = 0; index < ${items}.length; index++) {`,
        `const ${element} = ${items}[index]`,
        ...checks,
        `text += (index === 0 ? "[" : ",") + ${text.mayBeEmpty ? `(${toCode(text)} || "null")` : toCode(text)}`,
        "}",
        "return text === \"\" ? \"[]\" : text + \"]\""
      )
      return false
    })
  }

  /** The first member that takes the value writes it. */
  #union({ options: { mode } = {}, types }: SchemaAST.Union, value: string, statements: Array<string>, refuse: Refuse) {
    if (mode === "oneOf") return notCompiled("a union of which one must fit")
    return this.#call(value, statements, refuse, (either, own) => {
      const texts = types.map((type, index) => {
        own.push(`member${index}: {`)
        const text = this.#value(type, either, own, `break member${index}`)
        own.push(`return ${toCode(text)}`, "}")
        return text
      })
      own.push("return null")
      return texts.some(({ mayBeEmpty }) => mayBeEmpty)
    })
  }
}

/** The encoder of a flipped schema. Throws `NotCompiled`, and `EvalError` if the process may not generate code. */
export const generateEncoder = (ast: SchemaAST.AST): Write => new Generator().encoder(ast)
