import { connection, statusOf } from "../data/connection.ts"
import { useStore } from "../data/store.ts"

const texts = { connecting: "Connecting", live: "Live", lost: "Disconnected", ended: "Signed out" } as const

/** Whether the page follows the ledger, in one word. */
export const ConnectionState = () => {
  const status = useStore(connection, statusOf)
  return <span class={`connection connection-${status}`}>{texts[status]}</span>
}
