/** A value that components show, and that code outside of them changes. */
import { useEffect, useRef, useState } from "preact/hooks"

export interface Store<A> {
  readonly get: () => A
  readonly set: (value: A) => void
  /** Calls the listener after each change, until the returned function is called. */
  readonly subscribe: (listener: () => void) => () => void
}

export const createStore = <A>(initial: A): Store<A> => {
  let value = initial
  const listeners = new Set<() => void>()
  return {
    get: () => value,
    set: (next) => {
      if (Object.is(next, value)) return
      value = next
      for (const listener of listeners) listener()
    },
    subscribe: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    }
  }
}

/** The value of the store, or what `select` makes of it. The component renders again only if the result changes. */
export function useStore<A>(store: Store<A>): A
export function useStore<A, B>(store: Store<A>, select: (value: A) => B): B
export function useStore<A>(store: Store<A>, select: (value: A) => unknown = (value) => value): unknown {
  const [, render] = useState(0)
  const selected = select(store.get())
  // What the component shows now: `select` may depend on its properties.
  const shown = useRef({ select, selected })
  shown.current = { select, selected }
  useEffect(() => {
    const update = () => {
      const { select, selected } = shown.current
      if (!Object.is(select(store.get()), selected)) render((count) => count + 1)
    }
    // The value may have changed since the component rendered.
    update()
    return store.subscribe(update)
  }, [store])
  return selected
}
