/**
 * What the records of an operation say to operators, in the command line and in the console. The page of the console shares it, so the file
 * imports nothing.
 */

/** Results of actions that changed nothing, because what they ask for is so already. All but these and `done` are refusals. */
export const isSoAlready = "it was cancelled already"

/** How a record of an action reads: `done`, what is so already, or why the ledger refused. */
export const outcomeOf = (result: string): "done" | "nothing to do" | "refused" =>
  result === "done" ? "done" : result === isSoAlready ? "nothing to do" : "refused"

/** What a transition did to the end of sending (`send_before`). Null: nothing, or it set the first one. */
export const moveOfDeadline = (
  { evidence, to }: { readonly evidence?: unknown; readonly to: string }
): string | null =>
  to === "indeterminate" && (evidence as { readonly by?: unknown } | null | undefined)?.by === "rescuer"
    ? "The rescue may have moved the end of sending (send before). It covers a take-over of the claim that the database may have lost."
    : null
