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

/** An operation as JSON: times are ISO strings in UTC. */
export type Operation = typeof OperationSchema.Encoded

/** One page of operations, newest first. `next_page_token` is null on the last one. */
export type OperationList = typeof ListSchema.Encoded

/** One page of the change feed, with the token of the place after it. */
export type OperationChanges = typeof ChangesSchema.Encoded

/** What remains of each limit of the grant and of its access token. */
export type GrantLimits = typeof LimitsSchema.Encoded

type Kind = "string" | "number" | "boolean" | "nullable string" | "nullable object" | "operations" | "array"

/** Names the first member that is missing or of another type; null if there is none. */
export type Check = (value: unknown) => string | null

const isKind = (value: unknown, kind: Kind): boolean => {
  switch (kind) {
    case "nullable string":
      return value === null || typeof value === "string"
    case "nullable object":
      return typeof value === "object"
    case "operations":
      return Array.isArray(value) && value.every((one) => checkOperation(one) === null)
    case "array":
      return Array.isArray(value)
    default:
      return typeof value === kind
  }
}

const hasMembers = <A>(members: Readonly<Record<keyof A, Kind>>): Check => (value) => {
  if (typeof value !== "object" || value === null) return "object"
  // A member that the value lacks is undefined, which is of no kind.
  const found = value as Readonly<Record<string, unknown>>
  return Object.entries<Kind>(members).find(([name, kind]) => !isKind(found[name], kind))?.[0] ?? null
}

export const checkOperation = hasMembers<Operation>({
  id: "string",
  type: "string",
  state: "string",
  terminal: "boolean",
  submission_uncertain: "boolean",
  under_review: "boolean",
  revision: "number",
  created_at: "string",
  updated_at: "string",
  completed_at: "nullable string",
  failure: "nullable object"
})

export const checkList = hasMembers<OperationList>({ operations: "operations", next_page_token: "nullable string" })

export const checkChanges = hasMembers<OperationChanges>({
  operations: "operations",
  next_change_token: "string",
  has_more: "boolean"
})

export const checkLimits = hasMembers<GrantLimits>({ limits: "array" })

const checkProblem = hasMembers<ProblemMembers>({
  type: "string",
  title: "string",
  status: "number",
  detail: "string",
  instance: "string",
  code: "string",
  fields: "nullable object",
  request_id: "string",
  retryable: "boolean",
  submission_uncertain: "boolean"
})

export const isProblem = (value: unknown): value is ProblemMembers => checkProblem(value) === null
