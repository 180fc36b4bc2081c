/**
 * What an adapter refuses at its start. Each refusal is a `TypeError` of one sentence, and repeats no value. `setting` names the setting, such
 * as "the key of Increase (INCREASE_API_KEY)".
 */
import * as Redacted from "effect/Redacted"
import { loopbackHosts, parseBaseUrl } from "../../http/OutgoingRequest.ts"
import type { HttpCredentials } from "./HttpRequest.ts"

/** The address of a provider, without trailing slashes. A key goes without TLS to this machine alone. */
export const requireAddress = (setting: string, address: string): string => {
  const url = parseBaseUrl(address)
  if (url === null) {
    throw new TypeError(`${setting} must be a URL such as https://api.bank.example, without user or query`)
  }
  const { hostname, protocol } = new URL(url)
  if (protocol === "https:" || loopbackHosts.has(hostname)) return url
  throw new TypeError(`${setting} must begin with https: otherwise the network could read the credentials`)
}

/** A credential that a header can carry. */
export const requireSecret = (setting: string, secret: Redacted.Redacted<string>): Redacted.Redacted<string> => {
  if (/^[\x21-\x7e]+$/u.test(Redacted.value(secret))) return secret
  throw new TypeError(
    `${setting} must be set, and have visible ASCII characters alone: check it for spaces and line ends`
  )
}

/** The `credentials` of a bearer token (RFC 6750 §2.1). */
export const bearer = (token: Redacted.Redacted<string>): HttpCredentials => ({
  authorization: Redacted.make(`Bearer ${Redacted.value(token)}`)
})
