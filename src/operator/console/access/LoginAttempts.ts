/**
 * Attempts to sign in at the issuer. The browser keeps the attempt in a cookie, and the process keeps only one key: visitors without a
 * session take no memory of it.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { deriveSecret, newSecret } from "./secrets.ts"

/** Milliseconds for which an operator may take to sign in. */
export const attemptLifetime = 10 * 60_000

/** One attempt. Only the browser with its cookie can finish it. */
export interface LoginAttempt {
  /** For the cookie of the browser. */
  readonly cookie: string
  /** Binds the answer of the issuer to the browser (RFC 6749 §10.12). */
  readonly state: string
  /** Binds the ID token to the attempt (OpenID Connect Core §3.1.2.1). */
  readonly nonce: string
  /** Binds the authorization code to the attempt (RFC 7636). */
  readonly codeVerifier: string
  /** The path of the console to go to. */
  readonly next: string
}

/** Paths of the console that may follow a sign-in. */
const nextPattern = /^\/console(?:\/[\w.~/-]{0,256})?$/

/** Browsers resolve `..`, which leads out of the console. */
const hasDotSegment = (path: string): boolean => path.split("/").some((segment) => segment === "." || segment === "..")

const pathOr = (path: string | undefined): string =>
  path !== undefined && nextPattern.test(path) && !hasDotSegment(path) ? path : "/console"

export const makeLoginAttempts = Effect.gen(function*() {
  const clock = yield* Clock.Clock
  const key = newSecret()

  /** Another cookie has another state, which only the key tells. So the cookie needs no signature. */
  const attemptOf = (cookie: string, next: string): LoginAttempt => ({
    cookie,
    state: deriveSecret(key, "state", cookie),
    nonce: deriveSecret(key, "nonce", cookie),
    codeVerifier: deriveSecret(key, "code verifier", cookie),
    next
  })

  return {
    /** A new attempt. `next` is the path to go to; other text than a path of the console counts as its first page. */
    begin: (next?: string): LoginAttempt => {
      const path = pathOr(next)
      const end = clock.currentTimeMillisUnsafe() + attemptLifetime
      return attemptOf(`${newSecret()}.${end}.${Buffer.from(path).toString("base64url")}`, path)
    },
    /** The attempt of a cookie. Null: it has ended, or the cookie is none of an attempt. */
    find: (cookie: string): LoginAttempt | null => {
      const [, end, path = ""] = cookie.split(".")
      return Number(end) > clock.currentTimeMillisUnsafe()
        ? attemptOf(cookie, pathOr(Buffer.from(path, "base64url").toString()))
        : null
    }
  }
})
