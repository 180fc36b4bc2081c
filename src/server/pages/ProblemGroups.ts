/**
 * The groups of problems on the list for people, by what they are about.
 */
import { type ProblemCode, type ProblemKind, problemKinds } from "../../api/ProblemKinds.ts"

/** A group of problems. */
export interface ProblemGroup {
  /** The anchor of the group. */
  readonly id: string
  readonly title: string
  /** What the problems have in common, in one sentence. */
  readonly meaning: string
  readonly codes: ReadonlyArray<ProblemCode>
}

const groupIdOf = ({ retryable, status }: ProblemKind): string => {
  if (retryable) return "not-now"
  if (status === 401 || status === 403) return "credential"
  return status >= 500 ? "gateway" : "request"
}

const codesOf = (id: string): ReadonlyArray<ProblemCode> =>
  (Object.keys(problemKinds) as ReadonlyArray<ProblemCode>)
    .filter((code) => groupIdOf(problemKinds[code]) === id)
    .toSorted((a, b) => problemKinds[a].status - problemKinds[b].status)

/** Every group, with its problems by status. Each problem is in one group. */
export const problemGroups: ReadonlyArray<ProblemGroup> = [
  {
    id: "request",
    title: "Your request",
    meaning: "The request cannot succeed as it is. Correct it before you send it again.",
    codes: codesOf("request")
  },
  {
    id: "credential",
    title: "Your credential",
    meaning: "The access token or its grant does not permit the request.",
    codes: codesOf("credential")
  },
  {
    id: "not-now",
    title: "Not now",
    meaning: "The identical request can succeed later. Wait as long as Retry-After says.",
    codes: codesOf("not-now")
  },
  {
    id: "gateway",
    title: "The gateway",
    meaning: "The gateway failed. Do not repeat the request by itself.",
    codes: codesOf("gateway")
  }
]

/** The group of a problem. */
export const groupOf = (code: ProblemCode): ProblemGroup => problemGroups.find(({ codes }) => codes.includes(code))!
