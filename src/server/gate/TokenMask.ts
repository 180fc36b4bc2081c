/** Masks tokens in paths, for logs and traces. */

/** Longest text shown, in characters. The paths of the contract have 60 at most. */
const maxShown = 256

/**
 * First characters of recognizable tokens: those of the gateway, and a JSON object in Base64url such as the header of a
 * JWT.
 */
const beginning = /fingw_|eyJ/

/** Most rounds of percent-encoding that are decoded to look for a token. */
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

/** Masks from the start of a token to the end of the segment, because the rest may belong to the token. */
const maskSegment = (segment: string): string => {
  const found = beginning.exec(segment)
  const before = found === null ? segment : segment.slice(0, found.index)
  if (isEncodedToken(before)) return "…"
  return found === null ? segment : `${before}${found[0] === "fingw_" ? "fingw_" : ""}…`
}

/**
 * Returns a path or URL as logs and traces show it: cut to 256 characters, and without tokens. It masks tokens that are
 * whole, cut off or percent-encoded. It cannot recognize opaque tokens of authorization servers, which have no common
 * form.
 */
export const maskTokens = (text: string): string => {
  // Cut first: this bounds the cost of all that follows.
  const shown = text.length > maxShown ? `${text.slice(0, maxShown)}…` : text
  return shown.replaceAll(/[^/?&=;#]+/g, maskSegment)
}
