import type * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** Formats a schema error in one line: each issue with the path to the invalid member. */
export const reason = (error: Schema.SchemaError): string =>
  format(error.issue).issues.map(({ message, path = [] }) =>
    [...path.map((segment) => String(typeof segment === "object" ? segment.key : segment)), message].join(": ")
  ).join("; ").replaceAll(/\s+/gu, " ")
