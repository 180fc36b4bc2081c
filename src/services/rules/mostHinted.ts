/** Most operations that one hint by reference looks at: those with the reference that changed last. */
export const mostHinted = 100
