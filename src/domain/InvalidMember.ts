/** How values from outside are decoded, and how what does not fit is named. */
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"

/**
 * Every failure is found, and members that a schema does not declare are failures. The limits of JSON (`JsonLimits`) and of the request
 * target bound the work.
 */
export const strict = { errors: "all", onExcessProperty: "error" } as const

/** Most failures that an answer names. It must not grow with the size of an invalid request. */
export const maxNamed = 32

/** Longest name in an answer, in characters. The client chose the names, so a longer one is cut. */
export const maxName = 64

/** Says that an answer may name only the first failures. Empty: it names all of them. */
export const noteOfCut = ({ length }: ReadonlyArray<unknown>): string =>
  length < maxNamed ? "" : `\`fields\` names the first ${maxNamed} failures. There may be more.`

/** A member that does not fit. */
export const InvalidMember = Schema.Struct({
  /** Names and indices below the value. Empty: the value as a whole. */
  path: Schema.Array(Schema.String),
  /** What was expected. It never quotes the value. */
  message: Schema.String
})
export type InvalidMember = typeof InvalidMember.Type

/** A form that a union declares, by the names of its members. Null: it has none. */
const formsOf = (ast: SchemaAST.AST): ReadonlyArray<string | null> => {
  const encoded = SchemaAST.toEncoded(ast)
  if (SchemaAST.isUnion(encoded)) return encoded.types.flatMap(formsOf)
  return [
    SchemaAST.isObjects(encoded)
      ? `{ ${
        encoded.propertySignatures.map(({ name, type }) => `${String(name)}${type.context?.isOptional ? "?" : ""}`)
          .join(", ")
      } }`
      : null
  ]
}

type Format = ReturnType<typeof SchemaIssue.makeFormatterStandardSchemaV1>
type Failures = ReturnType<Format>["issues"]

/**
 * The failures of a union are those of the member with the fewest: those of all members together would contradict each other. If
 * several members differ and have as few, the union is one failure.
 */
const failuresOfUnion = (ast: SchemaAST.Union, members: ReadonlyArray<Failures>): Failures => {
  const fewest = Math.min(...members.map(({ length }) => length))
  const [best = [], ...others] = new Map(
    members.filter(({ length }) => length === fewest).map((failures) => [JSON.stringify(failures), failures])
  ).values()
  if (others.length === 0) return best
  const forms = formsOf(ast)
  const expected = forms.includes(null)
    ? [best, ...others].flat().map(({ message }) => message.replace(/^Expected /u, ""))
    : forms
  return [{ path: [], message: `Expected ${[...new Set(expected)].join(" | ")}` }]
}

const failuresOf = (issue: SchemaIssue.Issue, format: Format): Failures => {
  switch (issue._tag) {
    case "Encoding":
      return failuresOf(issue.issue, format)
    case "Pointer":
      return failuresOf(issue.issue, format).map(({ message, path = [] }) => ({
        message,
        path: [...issue.path, ...path]
      }))
    case "Composite":
      return issue.issues.flatMap((member) => failuresOf(member, format))
    case "AnyOf":
      return issue.issues.length === 0
        ? format(issue).issues
        : failuresOfUnion(issue.ast, issue.issues.map((member) => failuresOf(member, format)))
    default:
      return format(issue).issues
  }
}

const isOfPattern = Schema.is(
  Schema.Struct({ representation: Schema.Struct({ id: Schema.Literal("effect/schema/isPattern") }) })
)

/** The message of a single failure. A member that is no text is told what the pattern of its text expects: "string" says too little. */
export const messageOf: SchemaIssue.LeafHook = (issue) => {
  const checks = issue._tag === "InvalidType" ? issue.ast.checks ?? [] : []
  const expected = checks.map(({ annotations }) => annotations).find(isOfPattern)?.["expected"]
  return typeof expected === "string" ? `Expected ${expected}, as text` : SchemaIssue.defaultLeafHook(issue)
}

/** The members that do not fit, `maxNamed` at most. `leafHook` has the message of a single failure. */
export const invalidMembers = (
  { issue }: Schema.SchemaError,
  leafHook: SchemaIssue.LeafHook = messageOf
): ReadonlyArray<InvalidMember> =>
  failuresOf(issue, SchemaIssue.makeFormatterStandardSchemaV1({ leafHook }))
    .slice(0, maxNamed)
    .map(({ message, path = [] }) => ({
      path: path.map((segment) => String(typeof segment === "object" ? segment.key : segment).slice(0, maxName)),
      message
    }))
