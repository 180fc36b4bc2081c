/**
 * The host names of the admin listener. A page of an attacker can have this listener's address (DNS rebinding), but its requests name
 * the attacker's host.
 */
import * as Context from "effect/Context"
import type { RequestHeaders } from "../server/gate/RequestChecks.ts"

/** Names under which the listener answers, in lower case: `name:port`, or `name` with any port. */
export class AdminHosts extends Context.Service<AdminHosts, ReadonlyArray<string>>()(
  "financial-agents-gateway/operator/AdminHosts"
) {}

/** Whether the `Host` of a request is one of the names. Several `Host` headers arrive joined, and are none of them. */
export const makeAdmits = (hosts: ReadonlyArray<string>) => {
  const known = new Set(hosts)
  return ({ host = "" }: RequestHeaders): boolean => {
    const name = host.toLowerCase()
    return known.has(name) || known.has(name.replace(/:\d+$/, ""))
  }
}
