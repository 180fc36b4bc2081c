/**
 * Secrets of the console: 256 random bits each. The process keeps only their digests, which need no salt and no slow hash.
 */
import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto"

/** A new secret, in Base64url. */
export const newSecret = (): string => randomBytes(32).toString("base64url")

/** SHA-256 of a secret, in Base64url. */
export const digestOf = (secret: string): string => hash("sha256", secret, "base64url")

/** Compares two texts in a time that does not tell where they differ. */
export const isSameSecret = (given: string, expected: string): boolean =>
  timingSafeEqual(hash("sha256", given, "buffer"), hash("sha256", expected, "buffer"))

/** A secret for a purpose, from another one (HMAC with SHA-256). It tells nothing of the other one, nor of those for other purposes. */
export const deriveSecret = (key: string, purpose: string, text: string): string =>
  createHmac("sha256", key).update(`${purpose}\0${text}`).digest("base64url")
