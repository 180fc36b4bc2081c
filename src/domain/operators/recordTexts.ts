/**
 * What the records of an operation say to operators, in the command line and in the console. The page of the console shares it, so the file
 * imports nothing.
 */

/** Results of actions that changed nothing, because there is nothing to do. All but these and `done` are refusals. */
export const nothingToDo = {
  cancelled: "it was cancelled already",
  hold: "it is held already",
  read: "a read of its status is due already",
  release: "it is not held",
  unsent: "no worker has claimed it, so it has no status to read"
} as const

/** How a record of an action reads. */
export const outcomeOf = (result: string): "done" | "nothing to do" | "refused" =>
  result === "done" ? "done" : Object.values<string>(nothingToDo).includes(result) ? "nothing to do" : "refused"

/** What a transition did to the end of sending (`send_before`). Null: nothing, or it set the first one. */
export const moveOfDeadline = (
  { evidence, to }: { readonly evidence?: unknown; readonly to: string }
): string | null =>
  to === "indeterminate" && (evidence as { readonly by?: unknown } | null | undefined)?.by === "rescuer"
    ? "The rescue may have moved send before: it covers a take-over that the database may have lost."
    : null
