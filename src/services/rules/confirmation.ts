/** The operation of a `SqlError` that tells that no synchronous standby has confirmed a statement. */
export const confirmation = "confirm"
