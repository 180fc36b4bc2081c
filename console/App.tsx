/** The frame of all pages: head, connection, and the page that the address names. */
import { useEffect, useRef } from "preact/hooks"
import { announcement } from "./data/announcements.ts"
import { connection } from "./data/connection.ts"
import { followLinks, route, to } from "./data/route.ts"
import { useStore } from "./data/store.ts"
import { OperationPage } from "./pages/OperationPage.tsx"
import { OverviewPage } from "./pages/OverviewPage.tsx"
import { queues } from "./pages/queues.ts"
import { QueuesPage } from "./pages/QueuesPage.tsx"
import { SearchPage } from "./pages/SearchPage.tsx"
import { usePageTitle } from "./pages/usePageTitle.ts"
import { ConnectionBanner } from "./parts/ConnectionBanner.tsx"
import { Header } from "./parts/Header.tsx"

/** Takes the place of the page when the server knows no session of this browser: a session ends by time, or with its process. */
const SessionEndedPage = () => {
  usePageTitle("Signed out")
  return (
    <div class="notice" role="alert">
      <h1>Your session has ended</h1>
      <p>
        A session ends after an hour without a request, after twelve hours, or when the console's process stops. Each
        action was recorded when it was done.
      </p>
      <p>
        <button type="button" class="primary" onClick={() => location.reload()}>Sign in</button>
      </p>
    </div>
  )
}

/** For an address that names no page. */
const NotFoundPage = () => {
  usePageTitle("No such page")
  return (
    <div class="notice">
      <h1>There is no such page</h1>
      <p>
        <a class="button" href={to([])}>Go to the overview</a>
      </p>
    </div>
  )
}

/** Announces changes to screen readers without moving the focus. */
const LiveRegion = () => <p class="visually-hidden" aria-live="polite">{useStore(announcement)}</p>

const Page = () => {
  const { parts, query } = useStore(route)
  const [first, second] = parts
  if (parts.length === 0) return <OverviewPage hours={query.get("hours") ?? "3"} />
  if (first === "queues" && parts.length <= 2) {
    const name = second ?? "indeterminate"
    if (queues.some((queue) => queue.name === name)) return <QueuesPage name={name} query={query} />
  }
  if (first === "operations" && second !== undefined && parts.length === 2) {
    return <OperationPage key={second} id={second} />
  }
  if (first === "search" && parts.length === 1) return <SearchPage text={query.get("text") ?? ""} />
  return <NotFoundPage />
}

/** Moves the focus to the page after a navigation, so that keyboard and screen reader start at its heading. */
const useFocusAfterNavigation = () => {
  const main = useRef<HTMLElement>(null)
  const path = useStore(route, ({ parts }) => parts.join("/"))
  const first = useRef(path)
  useEffect(() => {
    if (first.current === path) return
    first.current = path
    scrollTo(0, 0)
    main.current?.focus({ preventScroll: true })
  }, [path])
  return main
}

export const App = () => {
  const ended = useStore(connection, ({ ended }) => ended)
  const main = useFocusAfterNavigation()
  return (
    // Links are reached by the keyboard, and a key on a link is a click.
    <div class="app" onClick={followLinks}>
      <a class="skip" href="#main">Skip to the content</a>
      <Header />
      <ConnectionBanner />
      <main id="main" tabIndex={-1} ref={main}>{ended ? <SessionEndedPage /> : <Page />}</main>
      <LiveRegion />
    </div>
  )
}
