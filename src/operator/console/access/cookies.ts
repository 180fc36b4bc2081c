/**
 * The cookies of the console. No script can read them, and browsers send them only with requests of the console's own pages.
 */
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { RequestHeaders } from "../../../server/gate/RequestChecks.ts"
import type { ConsoleAddressShape } from "./ConsoleAddress.ts"

/** `session`: the id of the session. `login`: the attempt to sign in at the issuer. */
type CookieName = "session" | "login"

const nameOf = ({ cookiePrefix }: ConsoleAddressShape, name: CookieName) => `${cookiePrefix}_${name}`

/**
 * Sets a cookie. Its value has no character that cookies quote. Without `maxAge`, in milliseconds, it ends with the browser.
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
