/**
 * Reasons in results that have no other place for words.
 */

/** The member of `_meta` that tells an agent why a result is as it is. */
export const reasonMember = "financial-agents-gateway/reason"
