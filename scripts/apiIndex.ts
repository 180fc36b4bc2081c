/**
 * The index of the public API: a row for each module, with the first sentence of its docstring and its exports.
 */
import { parse } from "@babel/parser"
import type { Comment, Statement } from "@babel/types"
import * as fs from "node:fs"
import * as path from "node:path"

export const apiIndexFile = "docs/api.md"

interface Module {
  /** First sentence of the docstring that opens the module. Empty if there is none. */
  readonly sentence: string
  /** First sentences of the exports, by name. Empty if an export has no docstring. */
  readonly exports: ReadonlyMap<string, string>
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

const parsed = new Map<string, ReturnType<typeof parse>["program"]["body"]>()

const statementsOf = (file: string) => {
  const known = parsed.get(file)
  if (known !== undefined) return known
  const { body } = parse(fs.readFileSync(file, "utf8"), { sourceType: "module", plugins: ["typescript"] }).program
  parsed.set(file, body)
  return body
}

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
  const [, comment] = /^\/\*\*(.*?)\*\//s.exec(fs.readFileSync(file, "utf8")) ?? []
  return comment === undefined ? "" : firstSentence(comment)
}

/** A module with the sentences of these exports. A module of one class needs no docstring beside that of the class. */
export const describeModule = (file: string, names: ReadonlyArray<string>): Module => {
  const exports = new Map([...new Set(names)].sort().map((name) => [name, sentenceOf(file, name)]))
  return { sentence: moduleSentence(file) || ([...exports.values()][0] ?? ""), exports }
}

/** The page: a row for each module, by the name under which users import it. */
export const apiIndex = (packageName: string, modules: ReadonlyMap<string, Module>): string =>
  [
    "# API",
    "",
    "These are the public modules with their exports. `npm run surface` generates this page. The docstring of each",
    "export, which editors show, has its meaning, units, errors, and the source of a rule.",
    "",
    `| \`${packageName}/…\` | Contents | Exports |`,
    "|---|---|---|",
    ...[...modules].map(([key, { exports, sentence }]) =>
      `| \`${key.slice(2)}\` | ${sentence} | ${[...exports.keys()].map((name) => `\`${name}\``).join(", ")} |`
    ),
    ""
  ].join("\n")
