/** Failures as one line, for standard error. */
import { ConfigError } from "effect/Config"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import { GrantsBlocked } from "../../domain/operators/GrantsBlocked.ts"
import { storeFailure, StoreUnavailable } from "../../services/StoreUnavailable.ts"
import { withInvocations } from "./Invocation.ts"

/** Joins the lines of a text. */
export const oneLine = (text: string): string =>
  text.split("\n").map((line) => line.trim()).filter((line) => line !== "").join(" ")

const format = SchemaIssue.makeFormatterStandardSchemaV1()

const notSet = "is not set: set it in the environment of this process"

/** A variable is text, so one that is none is missing. */
const formatVariables = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) =>
    issue._tag === "MissingKey" || issue._tag === "InvalidType" && SchemaAST.isString(issue.ast)
      ? notSet
      : SchemaIssue.defaultLeafHook(issue)
})

/** Each invalid variable or member with what was expected of it. It repeats no value, which may be a secret. */
const issuesOf = (issue: SchemaIssue.Issue, formatIssue = format): string =>
  formatIssue(issue).issues.map(({ message, path = [] }) =>
    [...path, message].map(String).join(": ").replace(`: ${notSet}`, ` ${notSet}`)
  ).join("; ")

/** What a schema refused; null if it is another failure. `make` of a schema throws an error with the issue as its cause. */
const invalidValueOf = (error: unknown): SchemaIssue.Issue | null => {
  if (Schema.isSchemaError(error)) return error.issue
  return error instanceof Error && SchemaIssue.isIssue(error.cause) ? error.cause : null
}

/** Why a program failed, in one line. Commands that it quotes are written as they are typed. */
export const failureLine = (error: unknown): string => withInvocations(oneLine(reasonOf(error)))

const reasonOf = (error: unknown): string => {
  if (error instanceof StoreUnavailable && error.cause instanceof GrantsBlocked) return error.cause.message
  const failure = storeFailure(error)
  if (failure !== null) return `database error: ${failure}`
  if (error instanceof ConfigError && error.cause._tag === "SchemaError") {
    return issuesOf(error.cause.issue, formatVariables)
  }
  const issue = invalidValueOf(error)
  if (issue !== null) return `invalid value: ${issuesOf(issue)}`
  const { cause, message, name } = error instanceof Error ? error : new Error(String(error))
  return message === "" && cause !== undefined ? reasonOf(cause) : message === "" ? name : message
}
