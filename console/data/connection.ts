/** Whether the page reaches its server, and since when it shows old data. */
import { createStore } from "./store.ts"

export interface Connection {
  /** `ended`: the server knows no session of this browser. */
  readonly status: "connecting" | "live" | "lost" | "ended"
  /** When the server last answered, in milliseconds since 1970. */
  readonly contact: number | null
}

export const connection = createStore<Connection>({ status: "connecting", contact: null })

/** An ended session stays ended until the page is loaded again. */
const change = (next: Partial<Connection>): void => {
  const now = connection.get()
  if (now.status === "ended") return
  connection.set({ ...now, ...next })
}

/** The server answered a request. */
export const answered = (): void => change({ contact: Date.now() })
/** The stream of changes is open. */
export const connected = (): void => change({ status: "live", contact: Date.now() })
/** A request did not reach the server, or the stream of changes broke. */
export const disconnected = (): void => change({ status: "lost" })
/** The server asks for a session. */
export const sessionEnded = (): void => change({ status: "ended" })
