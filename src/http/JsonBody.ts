/**
 * Bodies of JSON as other servers answer with them, before anything is parsed.
 */

/** Whether a `Content-Type` is JSON: `application/json`, or a type with the suffix `+json` (RFC 6839 §3.1). */
export const isJson = (contentType: string | undefined): boolean =>
  contentType !== undefined && /^application\/(?:[\w!#$&^.+-]+\+)?json[ \t]*(?:;|$)/i.test(contentType)

/** The chunks of a body in one piece, which is `size` bytes long. */
export const concat = (chunks: ReadonlyArray<Uint8Array>, size: number): Uint8Array => {
  const all = new Uint8Array(size)
  let offset = 0
  for (const chunk of chunks) {
    all.set(chunk, offset)
    offset += chunk.length
  }
  return all
}
