/** Whether the page reaches its server, and since when it shows old data. */
import { createStore } from "./store.ts"

interface State {
  readonly stream: "new" | "open" | "broken"
  /** Whether the last request got an answer. */
  readonly reached: boolean
  /** The server knows no session of this browser. */
  readonly ended: boolean
  /** When the server last answered, in milliseconds since 1970. */
  readonly contact: number | null
}

export const connection = createStore<State>({ stream: "new", reached: true, ended: false, contact: null })

type ConnectionStatus = "connecting" | "live" | "lost" | "ended"

/** `live`: the page follows the ledger. `lost`: what it shows may be old. */
export const statusOf = ({ ended, reached, stream }: State): ConnectionStatus => {
  if (ended) return "ended"
  if (!reached || stream === "broken") return "lost"
  return stream === "open" ? "live" : "connecting"
}

const change = (next: Partial<State>): void => connection.set({ ...connection.get(), ...next })

/** The server answered a request. */
export const answered = (): void => change({ reached: true, contact: Date.now() })
/** A request did not reach the server. */
export const unanswered = (): void => change({ reached: false })
/** The stream of changes is open. */
export const connected = (): void => change({ stream: "open", reached: true, contact: Date.now() })
/** The stream of changes broke. */
export const disconnected = (): void => change({ stream: "broken" })
/** The server asks for a session. It stays so until the page is loaded again. */
export const sessionEnded = (): void => change({ ended: true })
