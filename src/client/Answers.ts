/**
 * Checks that answers have the members of the contract. Members that a later gateway adds are ignored.
 */
import type {
  GrantLimits as LimitsSchema,
  OperationChanges as ChangesSchema,
  OperationList as ListSchema
} from "../api/OperationsApi.ts"
import type { Operation as OperationSchema } from "../domain/Operation.ts"
import type { ProblemMembers } from "./ClientErrors.ts"
import * as members from "./members.ts"

/** An operation as JSON: times are ISO strings in UTC. */
export type Operation = typeof OperationSchema.Encoded

/** One page of operations, newest first. `next_page_token` is null on the last one. */
export type OperationList = typeof ListSchema.Encoded

/** One page of the change feed, with the token of the place after it. */
export type OperationChanges = typeof ChangesSchema.Encoded

/** What remains of each limit of the grant and of its access token. */
export type GrantLimits = typeof LimitsSchema.Encoded

/** Names the first member that is missing or of another type; null if there is none. */
export type Check = (value: unknown) => string | null

/** The kinds of a value: those of `members.ts`. */
const kindsOf = (value: unknown): ReadonlyArray<string> => {
  if (value === null) return ["nullable string", "nullable object", "nullable array"]
  const kind = Array.isArray(value) ? "array" : typeof value
  const operations = Array.isArray(value) && value.every((one) => checkOperation(one) === null) ? ["operations"] : []
  return [kind, `nullable ${kind}`, ...operations]
}

const hasMembers = (members: Readonly<Record<string, string>>): Check => (value) => {
  if (typeof value !== "object" || value === null) return "object"
  // A member that the value lacks is undefined, which is of no kind.
  const found = value as Readonly<Record<string, unknown>>
  return Object.entries(members).find(([name, kind]) => !kindsOf(found[name]).includes(kind))?.[0] ?? null
}

export const checkOperation: Check = hasMembers(members.Operation)

export const checkList = hasMembers(members.OperationList)

export const checkChanges = hasMembers(members.OperationChanges)

export const checkLimits = hasMembers(members.GrantLimits)

const checkProblem = hasMembers(members.ProblemDetails)

export const isProblem = (value: unknown): value is ProblemMembers => checkProblem(value) === null
