import { useEffect, useState } from "preact/hooks"
import { connection, statusOf } from "../data/connection.ts"
import { navigate, route, to } from "../data/route.ts"
import { session, signOut } from "../data/session.ts"
import { useStore } from "../data/store.ts"

const texts = { connecting: "Connecting", live: "Live", lost: "Disconnected", ended: "Signed out" } as const

/** Whether the page follows the ledger, in one word. */
const ConnectionState = () => {
  const status = useStore(connection, statusOf)
  return <span class={`connection connection-${status}`}>{texts[status]}</span>
}

const NavigationLink = ({ address, children, current }: {
  readonly address: string
  readonly children: string
  readonly current: boolean
}) => <a href={address} aria-current={current ? "page" : undefined}>{children}</a>

const SearchForm = () => {
  const shown = useStore(route, ({ parts, query }) => parts[0] === "search" ? query.get("text") ?? "" : "")
  const [text, setText] = useState(shown)
  useEffect(() => setText(shown), [shown])
  const search = (event: Event) => {
    event.preventDefault()
    if (text.trim() !== "") navigate(to(["search"], { text: text.trim() }))
  }
  return (
    <form class="search" role="search" onSubmit={search}>
      <input
        type="search"
        name="text"
        aria-label="Search by id, key, reference, client, owner or payee"
        placeholder="Id, key, reference, client, owner or payee"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button type="submit">Search</button>
    </form>
  )
}

const Account = () => {
  const now = useStore(session)
  if (now === null) return null
  return (
    <div class="account">
      <span class="operator" title={`Signed in as ${now.operator}. Gateway ${now.version}`}>{now.operator}</span>
      <button type="button" class="quiet" onClick={() => void signOut()}>Sign out</button>
    </div>
  )
}

/** Name, pages, search and session. */
export const Header = () => {
  const first = useStore(route, ({ parts }) => parts[0])
  return (
    <header class="header">
      <a class="brand" href={to([])} aria-label="Gateway console">
        <svg viewBox="0 0 32 32" aria-hidden="true" width="22" height="22">
          <rect width="32" height="32" rx="7" class="brand-ground" />
          <path d="M8 22v-6m5.3 6V10m5.4 12v-9M24 22v-4" class="brand-bars" />
        </svg>
        <span>Gateway</span>
      </a>
      <nav aria-label="Pages">
        <NavigationLink address={to([])} current={first === undefined}>Overview</NavigationLink>
        <NavigationLink address={to(["queues", "indeterminate"])} current={first === "queues"}>Queues</NavigationLink>
      </nav>
      <SearchForm />
      <ConnectionState />
      <Account />
    </header>
  )
}
