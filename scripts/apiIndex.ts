/**
 * The index of the public API: one line for each export, from the first sentence of its docstring.
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

/** A module with the sentences of these exports. */
export const describeModule = (file: string, names: ReadonlyArray<string>): Module => ({
  sentence: moduleSentence(file),
  exports: new Map([...new Set(names)].sort().map((name) => [name, sentenceOf(file, name)]))
})

/** The page: the modules of each room, by the names under which users import them. */
export const apiIndex = (packageName: string, modules: ReadonlyMap<string, Module>): string => {
  const rooms = Map.groupBy(modules, ([key]) => key.split("/")[1]!)
  return [
    "# API",
    "",
    "This is every public module with its exports. `npm run surface` generates this page from the docstrings in the source,",
    "which say more: units, errors, and the source of a rule.",
    "",
    ...[...rooms].flatMap(([room, entries]) => [
      `## ${room}`,
      "",
      ...entries.flatMap(([key, { exports, sentence }]) => [
        `### ${key.replace(".", packageName)}`,
        "",
        ...sentence === "" ? [] : [sentence, ""],
        ...[...exports].map(([name, text]) => `- \`${name}\`: ${text}`),
        ""
      ])
    ])
  ].join("\n").replace(/\n+$/, "\n")
}
