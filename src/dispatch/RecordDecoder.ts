/** From records of text to checked values, compiled from a schema: parameters of a path, headers, and a query. */
import * as SchemaAST from "effect/SchemaAST"

/** The answer to a record that the schema may refuse, or that has members which this module does not compile. */
export const undecided: unique symbol = Symbol()

/** Decodes a record, or is undecided. */
type ReadRecord<Made> = (record: Readonly<Record<string, unknown>>) => Made | typeof undecided

/** The decoded form of a value, or `undecided`. */
type Read = (value: unknown) => unknown

/** The interpreter's own defaults. */
const options: SchemaAST.ParseOptions = {}

/** What precedes the checks of a part: its transformations, from the outside in. Null: this module does not compile one of them. */
const compileSource = ({ encoding }: SchemaAST.AST): Read | null => {
  if (encoding === undefined) return (value) => value
  const [{ to, transformation }, ...others] = encoding
  const read = compileLeaf(to)
  if (others.length > 0 || read === null || transformation._tag === "Middleware") return null
  const getter = transformation.decode
  if (getter._tag === "Passthrough") return read
  if (getter._tag !== "Transform") return null
  return (value) => {
    const source = read(value)
    return source === undecided ? undecided : getter.transform(source)
  }
}

/** Reads a part without members. Null: this module does not compile it. */
const compileLeaf = (ast: SchemaAST.AST): Read | null => {
  const isOne = SchemaAST.isString(ast)
    ? (value: unknown) => typeof value === "string"
    : SchemaAST.isNumber(ast)
    ? (value: unknown) => typeof value === "number"
    : SchemaAST.isLiteral(ast)
    ? (value: unknown) => value === ast.literal
    : null
  const filters: Array<SchemaAST.Filter<unknown>> = []
  for (const check of ast.checks ?? []) {
    if (check._tag !== "Filter") return null
    filters.push(check)
  }
  const source = compileSource(ast)
  if (isOne === null || source === null) return null
  return (value) => {
    const read = source(value)
    if (!isOne(read)) return undecided
    for (let index = 0; index < filters.length; index++) {
      if (filters[index]!.run(read, ast, options) !== undefined) return undecided
    }
    return read
  }
}

/** Whether a record without the member decodes to one without it: the member is optional, and has no default. */
const staysAbsent = (ast: SchemaAST.AST): boolean =>
  SchemaAST.isOptional(ast)
  && (ast.encoding ?? []).every(({ to, transformation }) =>
    SchemaAST.isOptional(to) && transformation._tag === "Transformation"
    && ["Passthrough", "Transform", "TransformEffect"].includes(transformation.decode._tag)
  )

/**
 * Compiles the decoding of a record of texts, numbers and literals. A member of another form, such as an array, is decided by the
 * interpreter, if the record has it: most requests leave out most parameters. Always undecided for other schemas. `make` makes the
 * object that gets the members.
 */
export const makeReadRecord = <Made extends object = Record<string, unknown>>(
  ast: SchemaAST.AST,
  options: SchemaAST.ParseOptions = {},
  make: () => Made & Record<string, unknown> = () => ({}) as never
): ReadRecord<Made> => {
  const { onExcessProperty = "ignore", disableChecks = false } = options
  const isPlain = SchemaAST.isObjects(ast) && ast.indexSignatures.length === 0 && ast.encoding === undefined
    && ast.checks === undefined && ast.encodingChecks === undefined
  if (!isPlain || disableChecks) return () => undecided
  const members = ast.propertySignatures.map(({ name, type }) => ({
    name: String(name),
    readLeaf: typeof name === "string" && name !== "__proto__" ? compileLeaf(type) : null,
    staysAbsent: staysAbsent(type)
  }))
  return (record) => {
    const read: Record<string, unknown> = make()
    let found = 0
    for (let index = 0; index < members.length; index++) {
      const { name, readLeaf, staysAbsent } = members[index]!
      if (!(name in record)) {
        if (!staysAbsent) return undecided
        continue
      }
      const value = readLeaf === null ? undecided : readLeaf(record[name])
      if (value === undecided) return undecided
      read[name] = value
      found++
    }
    return onExcessProperty === "error" && Object.keys(record).length > found ? undecided : read as Made
  }
}
