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
