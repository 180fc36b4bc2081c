/**
 * What an adapter refuses at its start. Each refusal is a `TypeError` of one sentence, and repeats no value. `setting` names the setting, such
 * as "the key of Increase (INCREASE_API_KEY)".
 */
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Redacted from "effect/Redacted"
import type { ProviderOperation } from "../../domain/Submission.ts"
import { loopbackHosts, parseBaseUrl } from "../../http/OutgoingRequest.ts"
import type { HttpProviderOptions } from "./HttpProviderOptions.ts"
import type { HttpCredentials } from "./HttpRequest.ts"

/**
 * The address of a provider, without trailing slashes. A key goes without TLS to this machine alone. At the hosts of `roots` the address has no
 * path, because the adapter has all of it: there a doubled path is not found, as an unknown order is.
 */
export const requireAddress = (setting: string, address: string, roots: ReadonlyArray<string> = []): string => {
  const url = parseBaseUrl(address)
  if (url === null) {
    throw new TypeError(`${setting} must be a URL such as https://api.bank.example, without user or query`)
  }
  const { hostname, pathname, protocol } = new URL(url)
  if (pathname !== "/" && roots.includes(hostname)) throw new TypeError(`${setting} must have no path: remove it`)
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

/** The `credentials` of a user and a password (RFC 7617 §2), in UTF-8. Throws a `TypeError` if the user has a colon. */
export const basic = (user: string, password: Redacted.Redacted<string>): HttpCredentials => {
  if (user.includes(":")) throw new TypeError("the user of basic credentials must have no colon")
  return { authorization: Redacted.make(`Basic ${Base64.encode(`${user}:${Redacted.value(password)}`)}`) }
}

/**
 * The `credentials` of settings, or of a function that finds those of the operation: then missing or refused ones are of this operation
 * alone. `headersOf` throws a `TypeError` if the credentials cannot be right. Those of the settings are refused at the start.
 */
export const credentialsFrom = <K extends object>(
  found: K | ((operation: ProviderOperation) => Effect.Effect<K, unknown>),
  headersOf: (credentials: K) => HttpCredentials
): Pick<HttpProviderOptions, "credentialsOf"> & {
  readonly credentials: (operation: ProviderOperation) => Effect.Effect<HttpCredentials, unknown>
} => {
  if (typeof found === "function") {
    return { credentials: (operation) => Effect.map(found(operation), headersOf), credentialsOf: "operation" }
  }
  const headers = headersOf(found)
  return { credentials: () => Effect.succeed(headers), credentialsOf: "gateway" }
}
