/** What a screen reader says politely. */
import { useEffect, useRef } from "preact/hooks"
import { createStore } from "./store.ts"

export const announcement = createStore("")

export const announce = (text: string): void => announcement.set(text)

/** Announces that a value has changed. Undefined: it is not known yet. */
export const useAnnouncedChange = <A>(
  value: A | undefined,
  textOf: (value: A, before: A) => string | undefined
): void => {
  const before = useRef<A | undefined>(undefined)
  useEffect(() => {
    if (value === undefined) return
    const text = before.current !== undefined && before.current !== value && textOf(value, before.current)
    if (text) announce(text)
    before.current = value
  }, [value])
}
