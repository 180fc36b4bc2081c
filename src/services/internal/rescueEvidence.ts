/** What the history says of a transition that the rescuer made. */
export const rescueEvidence = {
  by: "rescuer",
  reason: "the worker that claimed the operation did not record what became of it"
} as const
