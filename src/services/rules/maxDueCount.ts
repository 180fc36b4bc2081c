/** The largest `count` of due work in `LedgerFigures`. It stands for this many operations or more. */
export const maxDueCount = 1000
