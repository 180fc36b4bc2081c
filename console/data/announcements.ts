/** What a screen reader says politely. */
import { createStore } from "./store.ts"

export const announcement = createStore("")

export const announce = (text: string): void => announcement.set(text)
