/** The index of the public API: a row for each module, with the first sentence of its docstring and its exports. */
import { parse } from "@babel/parser"
import type { Comment, Node, Statement, TSTypeElement, VariableDeclarator } from "@babel/types"
import * as fs from "node:fs"
import * as path from "node:path"

export const apiIndexFile = "docs/api.md"

interface Module {
  /** First sentence of the docstring that opens the module. Empty if there is none. */
  readonly sentence: string
  /** First sentences of the exports, by name. Empty if an export has no docstring. */
  readonly exports: ReadonlyMap<string, string>
  /** Their signatures and members, by name. Empty if the name says all. */
  readonly shapes: ReadonlyMap<string, string>
}

/** The first sentence of a docstring, on one line. It ends with a full stop, or with the docstring. */
export const firstSentence = (comment: string): string => {
  const text = comment.split("\n").map((line) => line.replace(/^\s*\*? ?/, "")).join("\n").split(/\n\s*\n/)
    .find((paragraph) => paragraph.trim() !== "") ?? ""
  const [sentence = ""] = /^.*?\.(?=\s|$)|^.*$/s.exec(text.replaceAll(/\s+/g, " ").replace(/^\* /, "").trim()) ?? []
  return sentence.replace(/:$/, ".")
}

const docstring = (comments: ReadonlyArray<Comment> | null | undefined): string => {
  const last = comments?.findLast(({ type, value }) => type === "CommentBlock" && value.startsWith("*"))
  return last === undefined ? "" : firstSentence(last.value.slice(1))
}

const declaredIn = (statement: Statement): ReadonlyArray<string> => {
  const declaration = statement.type === "ExportNamedDeclaration" ? statement.declaration : statement
  switch (declaration?.type) {
    case "TSInterfaceDeclaration":
    case "TSTypeAliasDeclaration":
      return [declaration.id.name]
    case "ClassDeclaration":
    case "FunctionDeclaration":
      return [declaration.id!.name]
    case "VariableDeclaration":
      return declaration.declarations.flatMap(({ id }) => id.type === "Identifier" ? [id.name] : [])
    default:
      return []
  }
}

const parsed = new Map<string, { readonly text: string; readonly body: ReadonlyArray<Statement> }>()

/** A source file, which is read and parsed once. */
const sourceOf = (file: string) => {
  const known = parsed.get(file)
  if (known !== undefined) return known
  const text = fs.readFileSync(file, "utf8")
  const { body } = parse(text, { sourceType: "module", plugins: ["typescript"] }).program
  const source = { text, body }
  parsed.set(file, source)
  return source
}

const statementsOf = (file: string) => sourceOf(file).body

/** Where a module takes a name from that it does not declare: the file, and the name there. */
const originOf = (file: string, local: string): readonly [file: string, name: string] | null => {
  for (const statement of statementsOf(file)) {
    if (statement.type !== "ImportDeclaration" && statement.type !== "ExportNamedDeclaration") continue
    if (statement.source === null || statement.source === undefined) continue
    for (const specifier of statement.specifiers) {
      const isImport = specifier.type === "ImportSpecifier" && specifier.local.name === local
      const isExport = specifier.type === "ExportSpecifier"
        && (specifier.exported.type === "Identifier" && specifier.exported.name === local)
      if (!isImport && !isExport) continue
      const there = isImport ? specifier.imported : specifier.local
      if (!statement.source.value.startsWith(".")) return null
      const name = there.type === "Identifier" ? there.name : there.value
      return [path.join(path.dirname(file), statement.source.value), name]
    }
  }
  return null
}

/** Longest shape, in characters: of a longer one only the names of its members remain. */
const maxShape = 600

/** The source of a node on one line, without comments. */
const textOf = (file: string, { end, start }: Node): string =>
  sourceOf(file).text.slice(start!, end!).replaceAll(/\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*$/gm, "").replaceAll(
    "readonly ",
    ""
  )
    .replaceAll(/\s+/g, " ").replaceAll(/(^|[{(<,]) ?\| /g, "$1 ").trim()

const memberName = (file: string, member: TSTypeElement): string =>
  "key" in member ? textOf(file, member.key) + (member.optional === true ? "?" : "") : "…"

/** Members as they stand, or their names alone if that is too long. */
const membersOf = (file: string, members: ReadonlyArray<TSTypeElement>): string => {
  const whole = `{ ${members.map((member) => textOf(file, member).replace(/[;,]$/, "")).join("; ")} }`
  return whole.length <= maxShape ? whole : `{ ${members.map((member) => memberName(file, member)).join(", ")} }`
}

const orNothing = (text: string): string => text.length <= maxShape ? text : ""

/** The fields of `Schema.Struct({ … })`, also before `.check` and the like. Null: the expression is no such schema. */
const structIn = (file: string, node: Node | null | undefined): string | null => {
  if (node?.type !== "CallExpression") return null
  if (node.callee.type !== "MemberExpression") return null
  if (textOf(file, node.callee) !== "Schema.Struct") return structIn(file, node.callee.object)
  const [fields] = node.arguments
  if (fields?.type !== "ObjectExpression") return null
  const whole = textOf(file, fields)
  if (whole.length <= maxShape) return whole
  const names = fields.properties.map((field) => {
    if (field.type === "SpreadElement") return textOf(file, field)
    const isOptional = field.type === "ObjectProperty" && textOf(file, field.value).startsWith("Schema.optional")
    return textOf(file, field.key) + (isOptional ? "?" : "")
  })
  return `{ ${names.join(", ")} }`
}

/** The shape of an exported constant: its declared type, its parameters and result, or its fields. */
const shapeOfConstant = (file: string, { id, init }: VariableDeclarator): string => {
  if (id.type === "Identifier" && id.typeAnnotation?.type === "TSTypeAnnotation") {
    return orNothing(textOf(file, id.typeAnnotation.typeAnnotation))
  }
  // `Effect.fn(function*(…) { … })` has the parameters of its generator.
  const struct = structIn(file, init)
  if (struct !== null) return struct
  const called = init?.type === "CallExpression" ? init.arguments[0] : init
  if (called?.type !== "ArrowFunctionExpression" && called?.type !== "FunctionExpression") return ""
  const parameters = called.params.map((one) => textOf(file, one).replace(/ ?= (?:\{\}|[\w."]+)$/, ""))
  const result = called.returnType?.type === "TSTypeAnnotation" ? textOf(file, called.returnType.typeAnnotation) : "…"
  const whole = `(${parameters.join(", ")}) => ${result}`
  return whole.length <= maxShape ? whole : orNothing(`(${parameters.join(", ")}) => …`)
}

/** The shape of an exported class: the members of a service with its layers, or the fields of an error or a tagged class. */
const shapeOfClass = (file: string, statement: Statement & { readonly type: "ClassDeclaration" }): string => {
  const call = statement.superClass
  const inner = call?.type === "CallExpression" && call.callee.type === "CallExpression" ? call.callee : undefined
  const shape = inner?.typeParameters?.type === "TSTypeParameterInstantiation"
    ? inner.typeParameters.params[1]
    : statement.superTypeParameters?.type === "TSTypeParameterInstantiation"
    ? statement.superTypeParameters.params[0]
    : undefined
  const fields = call?.type === "CallExpression" ? call.arguments[1] : undefined
  const statics = statement.body.body.flatMap((member) =>
    member.type === "ClassProperty" && member.static && member.key.type === "Identifier" ? [member.key.name] : []
  )
  const members = shape?.type === "TSTypeLiteral" ?
    membersOf(file, shape.members) :
    shape !== undefined
    ? orNothing(textOf(file, shape))
    : fields?.type === "ObjectExpression" && fields.properties.length > 0
    ? orNothing(textOf(file, fields))
    : ""
  return [members, statics.length === 0 ? "" : `static ${statics.join(", ")}`].filter((part) => part !== "").join("; ")
}

const shapeIn = (file: string, name: string, statement: Statement): string => {
  const declaration = statement.type === "ExportNamedDeclaration" ? statement.declaration : statement
  switch (declaration?.type) {
    case "TSInterfaceDeclaration":
      return [
        ...(declaration.extends ?? []).map((one) => textOf(file, one)),
        ...declaration.body.body.length === 0 ? [] : [membersOf(file, declaration.body.body)]
      ].join(" & ")
    case "TSTypeAliasDeclaration":
      return declaration.typeAnnotation.type === "TSTypeLiteral"
        ? membersOf(file, declaration.typeAnnotation.members)
        : orNothing(textOf(file, declaration.typeAnnotation))
    case "ClassDeclaration":
      return shapeOfClass(file, declaration)
    case "VariableDeclaration":
      return declaration.declarations.filter(({ id }) => id.type === "Identifier" && id.name === name)
        .map((one) => shapeOfConstant(file, one)).join("")
    default:
      return ""
  }
}

/** The shape of a name, where it is declared. A schema and the type of its name need none: `Schema.Type` is no shape. */
const shapeOf = (file: string, name: string): string => {
  const statements = statementsOf(file).filter((statement) => declaredIn(statement).includes(name))
  if (statements.length > 0) {
    return statements.map((statement) => shapeIn(file, name, statement)).find((shape) =>
      shape !== "" && !shape.startsWith("typeof ")
    ) ?? ""
  }
  const origin = originOf(file, name)
  return origin === null ? "" : shapeOf(...origin)
}

/** The first sentence about a name. A class or type and a value of one name share the first docstring that there is. */
const sentenceOf = (file: string, name: string): string => {
  const statements = statementsOf(file).filter((statement) => declaredIn(statement).includes(name))
  if (statements.length > 0) {
    return statements.map(({ leadingComments }) => docstring(leadingComments)).find((text) => text !== "") ?? ""
  }
  const renamed = statementsOf(file).flatMap((statement) =>
    statement.type === "ExportNamedDeclaration" && (statement.source ?? null) === null ? statement.specifiers : []
  ).find((one) =>
    one.type === "ExportSpecifier" && one.exported.type === "Identifier" && one.exported.name === name
    && one.local.name !== name
  )
  if (renamed?.type === "ExportSpecifier") return sentenceOf(file, renamed.local.name)
  const origin = originOf(file, name)
  return origin === null ? "" : sentenceOf(...origin)
}

const moduleSentence = (file: string): string => {
  const [, comment] = /^\/\*\*(.*?)\*\//s.exec(sourceOf(file).text) ?? []
  return comment === undefined ? "" : firstSentence(comment)
}

/** A module with the sentences of these exports. A module of one class needs no docstring beside that of the class. */
export const describeModule = (file: string, names: ReadonlyArray<string>): Module => {
  const exports = new Map([...new Set(names)].sort().map((name) => [name, sentenceOf(file, name)]))
  const shapes = new Map([...exports.keys()].map((name) => [name, shapeOf(file, name)]))
  return { sentence: moduleSentence(file) || ([...exports.values()][0] ?? ""), exports, shapes }
}

const cellOf = (name: string, shape: string): string =>
  shape === "" ? `\`${name}\`` : `\`${name}\` \`${shape.replaceAll("`", "'").replaceAll("|", "\\|")}\``

/** The page: a row for each module, by the name under which users import it. */
export const apiIndex = (packageName: string, modules: ReadonlyMap<string, Module>): string =>
  [
    "# API",
    "",
    "These are the public modules with their exports, each with its signature or members. A long one has the names",
    "of its members alone. The docstring, which editors show, has meaning, units and errors. `npm run surface`",
    "generates this page.",
    "",
    `| \`${packageName}/…\` | Contents | Exports |`,
    "|---|---|---|",
    ...[...modules].map(([key, { sentence, shapes }]) =>
      `| \`${key.slice(2)}\` | ${sentence} | ${[...shapes].map(([name, shape]) => cellOf(name, shape)).join("<br>")} |`
    ),
    ""
  ].join("\n")
