/** The frame of all pages: head, connection, and the page that the address names. */
import { useEffect, useRef } from "preact/hooks"
import { connection } from "./data/connection.ts"
import { followLinks, route } from "./data/route.ts"
import { useStore } from "./data/store.ts"
import { NotFoundPage } from "./pages/NotFoundPage.tsx"
import { OperationPage } from "./pages/OperationPage.tsx"
import { OverviewPage } from "./pages/OverviewPage.tsx"
import { queues } from "./pages/queues.ts"
import { QueuesPage } from "./pages/QueuesPage.tsx"
import { SearchPage } from "./pages/SearchPage.tsx"
import { SessionEndedPage } from "./pages/SessionEndedPage.tsx"
import { ConnectionBanner } from "./parts/ConnectionBanner.tsx"
import { Header } from "./parts/Header.tsx"
import { LiveRegion } from "./parts/LiveRegion.tsx"

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
