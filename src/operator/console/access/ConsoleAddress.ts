/**
 * Where browsers reach the console, and the origin of its own pages.
 */
import * as Context from "effect/Context"
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
