/**
 * JWTs in the compact serialization (RFC 7515 §3.1), before anything is known of them.
 */
/** Characters. A longer token or proof is not looked at. */
export const longestJwt = 8192

/**
 * Base64url without padding, in the one way to write it: where the last character has bits that mean nothing, they are
 * zero (RFC 4648 §3.5). Else one token could be written in several ways, which are all told apart by their digests.
 */
const segment = String.raw`(?=[\w-])(?:[\w-]{4})*(?:[\w-][AQgw]|[\w-]{2}[AEIMQUYcgkosw048])?`

const compact = new RegExp(`^${segment}\\.${segment}\\.${segment}$`)

/** Whether this could be a JWT at all: three parts, none of them empty, and not too long. */
export const isCompactJwt = (text: string): boolean => text.length <= longestJwt && compact.test(text)
