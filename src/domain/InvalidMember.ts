/**
 * How values from outside are decoded, and how what does not fit is named.
 */
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"

/**
 * Every failure is found, and members that a schema does not declare are failures. The limits of JSON (`JsonLimits`) and of the request
 * target bound the work.
 */
export const strict = { errors: "all", onExcessProperty: "error" } as const

/** Most failures that an answer names. It must not grow with the size of an invalid request. */
export const maxNamed = 32

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

/** The members that do not fit, `maxNamed` at most. `messageOf` has the message of a single failure. */
export const invalidMembers = (
  { issue }: Schema.SchemaError,
  messageOf: SchemaIssue.LeafHook = SchemaIssue.defaultLeafHook
): ReadonlyArray<InvalidMember> =>
  SchemaIssue.makeFormatterStandardSchemaV1({ leafHook: messageOf })(issue).issues
    .slice(0, maxNamed)
    .map(({ message, path = [] }) => ({
      // The client chose the names, so a long one is cut.
      path: path.map((segment) => String(typeof segment === "object" ? segment.key : segment).slice(0, 64)),
      message
    }))
