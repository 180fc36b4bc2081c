import * as HttpBody from "effect/http/HttpBody"

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
