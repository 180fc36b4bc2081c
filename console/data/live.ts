/** The stream of changes. Its first event says nothing, so that the page reads after it what changed before it. */
import type { ConsoleChanges } from "../../src/operator/console/ConsoleApi.ts"
import { connected, connection, disconnected } from "./connection.ts"
import { request, unattended } from "./request.ts"

type Listener = (changes: ConsoleChanges) => void

const listeners = new Set<Listener>()

/** Milliseconds until the page tries again after the server refused the stream. A broken stream is opened again by the browser. */
const retryAfter = 3000

/** Calls the listener with each event, until the returned function is called. */
export const onChanges = (listener: Listener): () => void => {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

const refused = async (): Promise<void> => {
  // The status of the answer tells whether the session ended, and `EventSource` hides it.
  await request("/session", { headers: unattended }).catch(() => {})
  if (!connection.get().ended) setTimeout(followChanges, retryAfter)
}

let source: EventSource | undefined

/** Opens the stream. It stays open, or is opened again, as long as the session lasts. */
export const followChanges = (): void => {
  source?.close()
  const opened = new EventSource("/console/api/events")
  source = opened
  opened.addEventListener("open", connected)
  opened.addEventListener("changes", (event: MessageEvent<string>) => {
    connected()
    const changes = JSON.parse(event.data) as ConsoleChanges
    for (const listener of listeners) listener(changes)
  })
  opened.addEventListener("error", () => {
    disconnected()
    if (opened.readyState === EventSource.CLOSED) void refused()
  })
}
