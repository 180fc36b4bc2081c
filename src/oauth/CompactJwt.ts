/**
 * Recognizes JWTs in the compact serialization (RFC 7515 §3.1), before they are decoded.
 */

/** Most characters of a token or DPoP proof. Longer ones are refused undecoded. */
export const maxJwtLength = 8192

/**
 * Canonical base64url without padding: the unused bits of the last character are zero (RFC 4648 §3.5). Otherwise one token
 * would have several spellings with different digests.
 */
const segment = String.raw`(?=[\w-])(?:[\w-]{4})*(?:[\w-][AQgw]|[\w-]{2}[AEIMQUYcgkosw048])?`

const compact = new RegExp(`^${segment}\\.${segment}\\.${segment}$`)

/** Whether the text has the form of a JWT: three nonempty parts, and at most `maxJwtLength` characters. */
export const isCompactJwt = (text: string): boolean => text.length <= maxJwtLength && compact.test(text)
