import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { areScopesBounded, GrantId, isGrantLifetime, ProviderConnectionId, scopeBounds } from "../../domain/Grant.ts"
import { accessTokenDigest, generateAccessToken } from "../../domain/OpaqueToken.ts"
import type { GrantRequest } from "../Grants.ts"

/** What is made of a new grant before anything is looked up or written. */
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
    new_binding_id: yield* newProviderConnectionId
  }
})

/** For a provider connection that may turn out to be known already. */
export const newProviderConnectionId = Effect.map(
  SecureRandom.SecureRandom.use((random) => random.uuidV7()),
  (id) => ProviderConnectionId.make(id)
)
