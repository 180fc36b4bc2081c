/** The address of the page, and how to change it without loading the page again. */
import { createStore } from "./store.ts"

const root = "/console"

export interface Route {
  /** Parts of the path below the console, decoded. */
  readonly parts: ReadonlyArray<string>
  readonly query: URLSearchParams
}

const decode = (part: string): string => {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

const readRoute = (): Route => ({
  parts: location.pathname.slice(root.length).split("/").filter((part) => part !== "").map(decode),
  query: new URLSearchParams(location.search)
})

export const route = createStore(readRoute())

addEventListener("popstate", () => route.set(readRoute()))

/** The address of a page: `to(["operations", id])`. Empty values of the query are left out. */
export const to = (parts: ReadonlyArray<string>, query: Readonly<Record<string, string | undefined>> = {}): string => {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "") as Array<
    [string, string]
  >
  const path = [root, ...parts.map(encodeURIComponent)].join("/")
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`
}

/** Shows another page. `replace`: the back button skips this one. */
export const navigate = (address: string, { replace = false } = {}): void => {
  if (replace) history.replaceState(null, "", address)
  else history.pushState(null, "", address)
  route.set(readRoute())
}

const isPlainClick = (event: MouseEvent): boolean =>
  event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey && !event.defaultPrevented

/** Follows links within the console. Other links, and clicks that open a new tab, stay with the browser. */
export const followLinks = (event: MouseEvent): void => {
  const link = (event.target as Element).closest("a")
  if (link === null || !isPlainClick(event) || link.target !== "" || link.hash !== "") return
  if (link.origin !== location.origin || !link.pathname.startsWith(root)) return
  event.preventDefault()
  navigate(link.pathname + link.search)
}
