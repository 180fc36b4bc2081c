/**
 * Parts of every request that the gateway sends to an authorization server or a provider: its base URL, its settings, and a body that no
 * log shows.
 */
import * as HttpBody from "effect/http/HttpBody"

/** Host names of this machine, as `URL` writes them. To them alone, a secret may go by `http` without TLS. */
export const loopbackHosts: ReadonlySet<string> = new Set(["127.0.0.1", "[::1]", "localhost"])

/**
 * Parses an absolute `http` or `https` URL that paths are appended to. Returns it without trailing slashes, or null if it
 * is malformed, or has a user, a query or a fragment.
 */
export const parseBaseUrl = (text: string | URL): string | null => {
  if (!URL.canParse(text)) return null
  const { hash, href, password, protocol, search, username } = new URL(text)
  if (!/^https?:$/.test(protocol) || username + password + search + hash !== "") return null
  return href.replace(/(?<!\/)\/+$/, "")
}

/** Asks for JSON without compression, because HTTP clients differ in how they limit and decode compressed bodies. */
export const acceptJson = { accept: "application/json", "accept-encoding": "identity" } as const

/** For `FetchHttpClient.RequestInit`. By default, `fetch` follows redirects and may answer from a cache. */
export const fetchInit = { redirect: "manual", cache: "no-store" } as const

const encoder = new TextEncoder()

/**
 * A request body whose content never appears in logs and errors: `toJSON`, by which they print a request, redacts it.
 * It carries payloads to providers, and tokens and client credentials to authorization servers.
 */
export class RedactedBody extends HttpBody.Uint8Array {
  /** `application/json`. */
  static readonly json = (value: unknown): RedactedBody => encode(JSON.stringify(value), "application/json")

  /** `application/x-www-form-urlencoded`. */
  static readonly form = (fields: Readonly<Record<string, string>>): RedactedBody =>
    encode(new URLSearchParams(fields).toString(), "application/x-www-form-urlencoded")

  override toJSON(): unknown {
    return { _id: "effect/HttpBody", _tag: "Uint8Array", body: "<redacted>" }
  }
}

const encode = (text: string, contentType: string): RedactedBody => {
  const bytes = encoder.encode(text)
  return new RedactedBody(bytes, contentType, bytes.length)
}
