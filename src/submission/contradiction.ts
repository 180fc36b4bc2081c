import type { OperationId } from "../domain/Operation.ts"
import type { ProviderReference } from "../domain/Submission.ts"
import type { AnswerNames } from "./Provider.ts"

/** Where an answer names another operation than the one that was asked for. */
export interface Contradiction {
  readonly member: keyof AnswerNames
  /** What the ledger has, and what the answer names: for logs, so in printable ASCII and cut. */
  readonly expected: string
  readonly named: string
}

/** UTF-16 code units of a name that are logged. */
const longest = 64

/** Providers choose references and ids: no line break, no terminal sequence and no long text of theirs is logged. */
const loggable = (name: unknown): string =>
  typeof name === "string" ? name.slice(0, longest).replace(/[^\x20-\x7e]/g, "?") : `(${typeof name})`

/**
 * Whether an answer names another operation, by its id or by its reference, or null. What it does not name contradicts
 * nothing; nor does a reference where the ledger has none yet. `names` itself is missing only where an adapter was written
 * without types: then it is not known what the answer names, and it counts as a contradiction.
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
