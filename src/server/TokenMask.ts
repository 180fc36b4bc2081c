/**
 * What logs and traces show of a path: see `maskTokens`.
 */
/** Characters. The paths of the contract have 60 at most. */
const maxShown = 256

/** Beginnings of the tokens that can be told by their form: ours, and a JSON object in Base64url, such as the header of a JWT. */
const beginning = /fingw_|eyJ/

/** Rounds of percent-encoding that are undone to look for a token. */
const maxEncodings = 3

const decode = (text: string): string =>
  text.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))

const isEncodedToken = (text: string): boolean => {
  let decoded = text
  for (let round = 0; round < maxEncodings && decoded.includes("%"); round++) {
    decoded = decode(decoded)
    if (beginning.test(decoded)) return true
  }
  return false
}

/** A token ends with its segment: what follows it there may belong to it. */
const maskSegment = (segment: string): string => {
  const found = beginning.exec(segment)
  const before = found === null ? segment : segment.slice(0, found.index)
  if (isEncodedToken(before)) return "…"
  return found === null ? segment : `${before}${found[0] === "fingw_" ? "fingw_" : ""}…`
}

/**
 * The text of a path or URL as logs and traces show it: cut to 256 characters, and without the tokens that a client put
 * into it, be they whole, cut off or percent-encoded. Opaque tokens of authorization servers have no form to tell them by.
 */
export const maskTokens = (text: string): string => {
  // Cut first: nothing that follows may cost more than its length is worth.
  const shown = text.length > maxShown ? `${text.slice(0, maxShown)}…` : text
  return shown.replaceAll(/[^/?&=;#]+/g, maskSegment)
}
