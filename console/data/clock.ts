/** The time, as relative times show it. */
import { createStore } from "./store.ts"

/** Milliseconds since 1970, once a second. */
export const clock = createStore(Date.now())

setInterval(() => clock.set(Date.now()), 1000)
