/** Whether a worker may still send an operation in this state. Later, what allowed it says nothing any more. */
export const isUnsent = (state: string): boolean => state === "accepted" || state === "submitting"
