/** Where browsers reach the console, and the origin of its own pages. */
import * as Context from "effect/Context"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { RequestHeaders } from "../../../server/gate/RequestChecks.ts"

export interface ConsoleAddressShape {
  /** The origin that links name, such as `http://127.0.0.1:3001`. */
  readonly origin: string
  /** Whether browsers reach the console by https. Then cookies are for https alone. */
  readonly isSecure: boolean
  /** The origin of the console's own pages for a request. `AdminServer` has checked its `Host`. */
  readonly originFor: (headers: RequestHeaders) => string
  /** Begins the names of cookies. Browsers send a cookie to all ports of a host, so it names the port. */
  readonly cookiePrefix: string
}

export class ConsoleAddress extends Context.Service<ConsoleAddress, ConsoleAddressShape>()(
  "financial-agents-gateway/operator/console/access/ConsoleAddress"
) {}

/**
 * The address of a console that listens on the port. `url` is the origin for browsers, of a proxy or a tunnel; null: the listener
 * itself, by the name of the request. A proxy may send either the `Host` of the browser or a loopback name.
 */
export const makeConsoleAddress = (url: string | null, port: number): ConsoleAddressShape => {
  const origin = url ?? `http://127.0.0.1:${port}`
  const isSecure = origin.startsWith("https://")
  return {
    origin,
    isSecure,
    originFor: ({ host = "" }) => url ?? `http://${host.toLowerCase()}`,
    cookiePrefix: isSecure ? "__Host-gateway_console" : `gateway_console_${new URL(origin).port || "80"}`
  }
}

/** `session`: the id of the session. `login`: the attempt to sign in at the issuer. */
type CookieName = "session" | "login"

const nameOf = ({ cookiePrefix }: ConsoleAddressShape, name: CookieName) => `${cookiePrefix}_${name}`

/**
 * Sets a cookie that no script can read, and that browsers send only with requests of the console's own pages. Its value has no
 * character that cookies quote. Without `maxAge`, in milliseconds, it ends with the browser.
 */
export const setCookie = (
  response: HttpServerResponse.HttpServerResponse,
  address: ConsoleAddressShape,
  name: CookieName,
  value: string,
  maxAge?: number
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.setCookieUnsafe(response, nameOf(address, name), value, {
    httpOnly: true,
    sameSite: "strict",
    secure: address.isSecure,
    // Browsers demand the path of all paths for the prefix `__Host-`.
    path: address.isSecure ? "/" : "/console",
    ...maxAge === undefined ? {} : { maxAge }
  })

/** Removes a cookie from the browser. */
export const removeCookie = (
  response: HttpServerResponse.HttpServerResponse,
  address: ConsoleAddressShape,
  name: CookieName
): HttpServerResponse.HttpServerResponse => setCookie(response, address, name, "", 0)

/** The cookie of a request. Null if it is missing or given twice: one of the two was set by another server of the host. */
export const readCookie = (
  address: ConsoleAddressShape,
  { cookie = "" }: RequestHeaders,
  name: CookieName
): string | null => {
  const prefix = `${nameOf(address, name)}=`
  const values = cookie.split(";").map((pair) => pair.trim()).filter((pair) => pair.startsWith(prefix))
  return values.length === 1 && values[0]!.length > prefix.length ? values[0]!.slice(prefix.length) : null
}
