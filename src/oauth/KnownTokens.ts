/**
 * Which tokens the authorization server has called active of late: questions about them are kept apart from those about
 * tokens that anyone may have made up.
 */
import type * as Redacted from "effect/Redacted"

/** How many tokens a generation holds. */
const generationSize = 10_000

/** Milliseconds after which a generation ends. */
const generationLength = 30 * 60_000

/** Digests are SHA-256 of tokens; times are milliseconds since the epoch. */
export interface KnownTokens {
  readonly has: (digest: string) => boolean
  /** Takes in a token that was verified now. */
  readonly remember: (
    digest: string,
    token: { readonly token: Redacted.Redacted<string>; readonly expiresAt: number },
    now: number
  ) => void
  /** Drops a token that is active no more. */
  readonly forget: (digest: string) => void
  /** The token that was verified last, until it expires or is dropped. It is the only one whose text is kept. */
  readonly latest: (now: number) => { readonly digest: string; readonly token: Redacted.Redacted<string> } | null
}

/**
 * Keeps two generations of digests, 20,000 at most. A new generation begins after half an hour or 10,000 tokens, and the older
 * one is forgotten whole. So a token that is used stays known, and its use changes the sets once in a generation.
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
