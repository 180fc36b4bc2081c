/**
 * From a credential to the identity of a grant.
 */
import * as Cache from "effect/Cache"
import * as Context from "effect/Context"
import * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import { accessTokenDigest, accessTokenPattern } from "../domain/AccessToken.ts"
import type { GrantIdentity } from "../domain/Grant.ts"
import { MemoryLedger } from "./MemoryLedger.ts"
import { orUnavailable, type StoreUnavailable } from "./StoreUnavailable.ts"

/** The credential is malformed, unknown or expired, or was meant for somebody else. */
export class InvalidCredential extends Schema.TaggedError<InvalidCredential>()("InvalidCredential", {}) {}

/** Keys or the authorization server could not be reached, so nothing can be said of the credential. Fail closed. */
export class AuthorizationUnavailable extends Schema.TaggedError<AuthorizationUnavailable>()(
  "AuthorizationUnavailable",
  { cause: Schema.Defect() }
) {}

const identityOfToken = `
  SELECT t.grant_id, t.client_id, g.subject
  FROM access_tokens t JOIN grants g ON g.id = t.grant_id AND g.client_id = t.client_id
  WHERE t.digest = decode($1, 'hex')`

/**
 * Yields the identity of the grant that a credential names. It says nothing of whether that grant is still good:
 * `OperationStore` checks that in the statement that reads, so an implementation may cache what it verified, and
 * never a status.
 *
 * Replace it to accept other credentials. `verify` must not log what it is given.
 */
export class GrantVerifier extends Context.Service<GrantVerifier, {
  readonly verify: (
    credential: Redacted.Redacted<string>
  ) => Effect.Effect<GrantIdentity, InvalidCredential | AuthorizationUnavailable | StoreUnavailable>
}>()("financial-agents-gateway/services/GrantVerifier") {
  /** Verifies the opaque tokens that `Grants.issue` hands out. */
  static readonly layer: Layer.Layer<GrantVerifier, never, SqlClient.SqlClient | Digest.Digest> = Layer.effect(
    GrantVerifier,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      return yield* makeOpaque((digest) =>
        Effect.map(orUnavailable(sql.unsafe<GrantIdentity>(identityOfToken, [digest])), ([identity]) => identity)
      )
    })
  )

  /** Verifies the tokens of `Grants.layerMemory`. */
  static readonly layerMemory: Layer.Layer<GrantVerifier, never, MemoryLedger | Digest.Digest> = Layer.effect(
    GrantVerifier,
    Effect.gen(function*() {
      const memory = yield* MemoryLedger
      return yield* makeOpaque((digest) => Effect.sync(() => memory.tokens.get(digest)))
    })
  )

  /** Knows exactly these credentials. For tests, and for applications that bring their own sessions. */
  static readonly layerFixed = (identities: ReadonlyMap<string, GrantIdentity>): Layer.Layer<GrantVerifier> =>
    Layer.succeed(GrantVerifier, {
      verify: (credential) => orInvalid(identities.get(Redacted.value(credential)))
    })
}

const orInvalid = (identity: GrantIdentity | undefined): Effect.Effect<GrantIdentity, InvalidCredential> =>
  identity === undefined ? Effect.fail(new InvalidCredential()) : Effect.succeed(identity)

/**
 * A token names one grant for ever (the database refuses to change it), so up to 10,000 identities are kept, for a
 * minute each, under the token's SHA-256.
 */
const makeOpaque = Effect.fnUntraced(function*(
  lookup: (digest: string) => Effect.Effect<GrantIdentity | undefined, StoreUnavailable>
) {
  const digests = yield* Digest.Digest
  const identities = yield* Cache.makeWith(
    (digest: string) => Effect.flatMap(lookup(digest), orInvalid),
    { capacity: 10_000, timeToLive: (exit) => Exit.isSuccess(exit) ? "1 minute" : 0 }
  )
  return GrantVerifier.of({
    verify: (credential) => {
      const token = Redacted.value(credential)
      return accessTokenPattern.test(token)
        ? Effect.flatMap(
          Effect.provideService(accessTokenDigest(token), Digest.Digest, digests),
          (digest) => Cache.get(identities, digest)
        )
        : Effect.fail(new InvalidCredential())
    }
  })
})
