import type * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** What is wrong with a value, in one line: each fault of it after the path that leads there. */
export const reason = (error: Schema.SchemaError): string =>
  format(error.issue).issues.map(({ message, path = [] }) =>
    [...path.map((segment) => String(typeof segment === "object" ? segment.key : segment)), message].join(": ")
  ).join("; ").replaceAll(/\s+/gu, " ")
