/** A value that components show, and that code outside of them changes. */
import { useEffect, useState } from "preact/hooks"

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
export const useStore = <A, B = A>(store: Store<A>, select: (value: A) => B = (value) => value as unknown as B): B => {
  // Without `select`, B is A.
  const [, render] = useState<B>(() => select(store.get()))
  useEffect(() => store.subscribe(() => render(() => select(store.get()))), [store])
  return select(store.get())
}
