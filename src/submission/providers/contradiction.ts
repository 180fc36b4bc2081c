import type { OperationId } from "../../domain/Operation.ts"
import type { ProviderReference } from "../../domain/Submission.ts"
import { loggable } from "./loggable.ts"
import type { AnswerNames } from "./ProviderAdapter.ts"

/** An answer names another operation than the one that was asked for, by this member. */
export interface Contradiction {
  readonly member: keyof AnswerNames
  /** The ledger's name and the answer's name. For logs: in printable ASCII, and cut to 64 UTF-16 code units. */
  readonly expected: string
  readonly named: string
}

/**
 * Finds the member by which an answer names another operation: its id or its reference. Null when there is none. A
 * member that is null contradicts nothing, and neither does a reference while the ledger has none. `names` is missing
 * only when an adapter is written without types. That counts as a contradiction, because the named operation is not
 * known.
 */
export const findContradiction = (
  names: AnswerNames | null | undefined,
  operation: { readonly id: OperationId; readonly reference: ProviderReference | null }
): Contradiction | null => {
  const differing = (member: keyof AnswerNames, expected: string | null): Contradiction | null => {
    const named = names?.[member]
    if (named === null || (expected === null && typeof named === "string") || named === expected) return null
    return { member, expected: loggable(expected), named: loggable(named) }
  }
  return differing("operation_id", operation.id) ?? differing("reference", operation.reference)
}
