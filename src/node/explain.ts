/**
 * Failures as one line, for standard error.
 */
import { GrantsBlocked } from "../services/GrantBlockers.ts"
import { storeFailure, StoreUnavailable } from "../services/StoreUnavailable.ts"
import { withInvocations } from "./Invocation.ts"

/** Joins the lines of a text. */
export const oneLine = (text: string): string =>
  text.split("\n").map((line) => line.trim()).filter((line) => line !== "").join(" ")

/** Why a program failed, in one line. Commands that it quotes are written as they are typed. */
export const explain = (error: unknown): string => withInvocations(oneLine(reasonOf(error)))

const reasonOf = (error: unknown): string => {
  if (error instanceof StoreUnavailable && error.cause instanceof GrantsBlocked) return error.cause.message
  const failure = storeFailure(error)
  if (failure !== null) return `database error: ${failure}`
  const { cause, message, name } = error instanceof Error ? error : new Error(String(error))
  return message === "" && cause !== undefined ? reasonOf(cause) : message === "" ? name : message
}
