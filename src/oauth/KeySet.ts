/**
 * The keys of an authorization server (RFC 7517 §5), as they change: see `KeptDocument` for when they are fetched.
 */
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import { AuthorizationUnavailable, InvalidCredential } from "../domain/Credential.ts"
import { ServerFailure, withIssuer } from "../http/JsonExchange.ts"
import type { IssuerSettings } from "./Issuer.ts"
import { makeKept, monotonicMillis } from "./KeptDocument.ts"
import { makeKeySource } from "./KeySource.ts"

/** Finds keys by what the header of a signature says. */
export interface KeySet {
  /**
   * The key that verifies this. `InvalidCredential` when there is none, or when the header names none and there are several;
   * `AuthorizationUnavailable` when that cannot be said: the keys could not be fetched, or not within a second, or the
   * server has several keys of that name.
   */
  readonly find: (header: {
    readonly algorithm: string
    readonly kid: string | undefined
  }) => Effect.Effect<CryptoKey, InvalidCredential | AuthorizationUnavailable>
}

/**
 * Keys are fresh for ten minutes. A key that is not among them starts a fetch, but there is at most one in 30 seconds.
 * When it fails, yields no usable key, or takes more than a second, the keys of the last hour are used.
 */
export const makeKeySet = Effect.fnUntraced(function*(
  settings: Pick<IssuerSettings, "issuer" | "algorithms" | "jwksUri">
): Effect.fn.Return<KeySet, never, HttpClient.HttpClient> {
  const { issuer } = settings
  const client = yield* HttpClient.HttpClient
  const kept = makeKept({
    issuer,
    what: "keys",
    fetch: Effect.provideService(makeKeySource(settings), HttpClient.HttpClient, client)
  })

  const candidates = (now: number, algorithm: string, kid: string | undefined): ReadonlyArray<CryptoKey> =>
    (kept.usable(now) ?? []).filter((key) => key.algorithm === algorithm && (kid === undefined || key.kid === kid))
      .map(({ key }) => key)

  const unavailable = (cause: ServerFailure) => Effect.fail(new AuthorizationUnavailable({ cause }))
  const ambiguous = withIssuer(
    issuer,
    new ServerFailure({ reason: "its key set has several keys of the name that a token gives", status: 200 })
  )

  return {
    find: Effect.fnUntraced(function*({ algorithm, kid }) {
      const now = yield* monotonicMillis
      const known = candidates(now, algorithm, kid)
      if (known.length === 1 && kept.isFresh(now)) return known[0]!
      yield* kept.refresh(now)
      const later = yield* monotonicMillis
      if (kept.usable(later) === null) return yield* unavailable(kept.failure())
      const found = candidates(later, algorithm, kid)
      if (found.length === 1) return found[0]!
      // A name that two keys have is the server's mistake, and not the token's.
      if (found.length > 1 && kid !== undefined) return yield* unavailable(ambiguous)
      // It may have been added since: who could not look cannot say that there is none.
      return yield* kept.isBehind() ? unavailable(kept.failure()) : Effect.fail(new InvalidCredential())
    })
  }
})
