import { useAnnouncedChange } from "../data/announcements.ts"
import { connection, statusOf } from "../data/connection.ts"
import { useStore } from "../data/store.ts"
import { Time } from "./Time.tsx"

/** Shown while the server does not answer: how old the data is. */
export const ConnectionBanner = () => {
  const state = useStore(connection)
  const status = statusOf(state)
  const { contact } = state
  useAnnouncedChange(status, (now, before) =>
    now === "lost"
      ? "Disconnected from the console's server. The page reconnects by itself."
      : now === "live" && before === "lost"
      ? "Connected again."
      : undefined)
  if (status !== "lost") return null
  return (
    <section class="banner" aria-label="Connection">
      <strong>Disconnected.</strong> The console's server does not answer. {contact === null
        ? "No data was read yet."
        : (
          <>
            What you see was read <Time at={contact} />.
          </>
        )} The page reconnects by itself.
    </section>
  )
}
