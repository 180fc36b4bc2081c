import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { areScopesBounded, GrantId, isGrantLifetime, ProviderConnectionId, scopeBounds } from "../../domain/Grant.ts"
import type { GrantRequest } from "../../domain/GrantRequest.ts"
import { accessTokenDigest, generateAccessToken } from "../../domain/OpaqueToken.ts"

/** Prepares a new grant: its ids, its access token and the digest of the token. Reads and writes no store. */
export const newGrant = Effect.fnUntraced(function*(request: GrantRequest) {
  if (!isGrantLifetime(request.expires_in)) {
    return yield* Effect.die(new RangeError("a grant lives for a hundred years at most"))
  }
  if (!areScopesBounded(request.scopes)) return yield* Effect.die(new RangeError(scopeBounds))
  const access_token = yield* generateAccessToken
  return {
    access_token,
    digest: yield* accessTokenDigest(Redacted.value(access_token)),
    grant_id: GrantId.make(yield* SecureRandom.SecureRandom.use((random) => random.uuidV7())),
    new_connection_id: yield* newProviderConnectionId
  }
})

/** An id for a provider connection, unless the store knows the connection already. */
export const newProviderConnectionId = Effect.map(
  SecureRandom.SecureRandom.use((random) => random.uuidV7()),
  (id) => ProviderConnectionId.make(id)
)
