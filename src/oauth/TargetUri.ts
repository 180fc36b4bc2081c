/**
 * The target URI of a request, as DPoP proofs name it (`htu`, RFC 9449 §4.2).
 */

const unreserved = /^[A-Za-z0-9._~-]$/

/** RFC 3986 §6.2.2.1 and §6.2.2.2: what needs no encoding is decoded, and the rest is written in upper case. */
const normalizeEscapes = (path: string): string =>
  path.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => {
    const character = String.fromCharCode(Number.parseInt(hex, 16))
    return unreserved.test(character) ? character : `%${hex.toUpperCase()}`
  })

/**
 * The one way to write a target URI, without query and fragment: scheme and host in lower case, no default port, no dot
 * segments, and no needless escapes (RFC 3986 §6.2.2 and §6.2.3; RFC 9449 §4.3 asks for both). Null for what is no
 * HTTP URI, or names a user: `URL` would mend backslashes and blanks, which are in no URI.
 */
export const normalizeTargetUri = (text: string): string | null => {
  if (!/^https?:\/\/[^\\/?#@][^\\]*$/i.test(text) || !/^[\x21-\x7e]+$/.test(text) || !URL.canParse(text)) return null
  const { host, password, pathname, protocol, username } = new URL(text)
  return username + password === "" ? `${protocol}//${host}${normalizeEscapes(pathname)}` : null
}
