/**
 * Normalizes the target URI of a request, as in the claim `htu` of DPoP proofs (RFC 9449 §4.2).
 */

const unreserved = /^[A-Za-z0-9._~-]$/

/** Decodes needless escapes, and writes all others in upper case (RFC 3986 §6.2.2.1 and §6.2.2.2). */
const normalizeEscapes = (path: string): string =>
  path.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => {
    const character = String.fromCharCode(Number.parseInt(hex, 16))
    return unreserved.test(character) ? character : `%${hex.toUpperCase()}`
  })

/**
 * Normalizes a target URI, and removes query and fragment. The result has scheme and host in lower case, no default port,
 * no dot segments, and no needless escapes (RFC 3986 §6.2.2 and §6.2.3; RFC 9449 §4.3 requires both). Null if the text is no HTTP URI, or
 * has a user. Backslashes and blanks are refused first, because `URL` would repair them.
 */
export const normalizeTargetUri = (text: string): string | null => {
  if (!/^https?:\/\/[^\\/?#@][^\\]*$/i.test(text) || !/^[\x21-\x7e]+$/.test(text) || !URL.canParse(text)) return null
  const { host, password, pathname, protocol, username } = new URL(text)
  return username + password === "" ? `${protocol}//${host}${normalizeEscapes(pathname)}` : null
}
