/**
 * Remembers the tokens that the authorization server recently reported as active. Introspection gives requests about them a
 * limiter of their own, apart from tokens that an attacker may have invented.
 */
import type * as Redacted from "effect/Redacted"

/** Most tokens of one generation. */
const generationSize = 10_000

/** Length of a generation, in milliseconds. */
const generationLength = 30 * 60_000

/** Recently active tokens. Digests are SHA-256 of tokens; times are milliseconds since the epoch. */
export interface KnownTokens {
  readonly has: (digest: string) => boolean
  /** Adds a token that was verified at `now`. */
  readonly remember: (
    digest: string,
    token: { readonly token: Redacted.Redacted<string>; readonly expiresAt: number },
    now: number
  ) => void
  /** Removes a token that is no longer active. */
  readonly forget: (digest: string) => void
  /** The token that was verified last; null once it expires or is removed. Only this token is kept as text. */
  readonly latest: (now: number) => { readonly digest: string; readonly token: Redacted.Redacted<string> } | null
}

/**
 * Keeps two generations of digests, 20,000 at most. A new generation starts after 30 minutes or 10,000 tokens, and the older
 * one is dropped. A token in use therefore stays known, and changes the sets once per generation.
 */
export const makeKnownTokens = (): KnownTokens => {
  let current = new Set<string>()
  let previous = new Set<string>()
  let startedAt = -Infinity
  let latest: { digest: string; token: Redacted.Redacted<string>; expiresAt: number } | null = null

  return {
    has: (digest) => current.has(digest) || previous.has(digest),
    remember: (digest, { expiresAt, token }, now) => {
      if (now - startedAt >= generationLength || current.size >= generationSize && !current.has(digest)) {
        previous = current
        current = new Set()
        startedAt = now
      }
      current.add(digest)
      latest = { digest, token, expiresAt }
    },
    forget: (digest) => {
      current.delete(digest)
      previous.delete(digest)
      if (latest?.digest === digest) latest = null
    },
    latest: (now) => latest !== null && now < latest.expiresAt ? latest : null
  }
}
