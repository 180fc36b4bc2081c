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
import * as SqlClient from "effect/sql/SqlClient"
import {
  type AuthorizationUnavailable,
  type Credential,
  InvalidCredential,
  type InvalidDpopProof,
  type NonceRequired
} from "../../domain/Credential.ts"
import type { GrantIdentity } from "../../domain/Grant.ts"
import { accessTokenDigest, accessTokenPattern } from "../../domain/OpaqueToken.ts"
import { MemoryLedger } from "../memory/MemoryLedger.ts"
import { onPrimary } from "../sql/onPrimary.ts"
import { orUnavailable, type StoreUnavailable } from "../StoreUnavailable.ts"
import {
  AcceptedCredentials,
  type AcceptedCredentialsShape,
  type ForwardedCertificates
} from "./AcceptedCredentials.ts"
import {
  acceptedBy,
  AuthorizationMisconfigured,
  type IntrospectionIssuer,
  type IssuersOptions,
  type JwtIssuer,
  makeOAuth,
  type SenderOptions
} from "./OAuthVerifier.ts"

export {
  AcceptedCredentials,
  type AcceptedCredentialsShape,
  AuthorizationMisconfigured,
  type ForwardedCertificates,
  type IntrospectionIssuer,
  type IssuersOptions,
  type JwtIssuer,
  type SenderOptions
}

/** A standby may lack a token that was issued a moment ago, and must not call it invalid. */
const identityOfToken = `
  SELECT t.grant_id, t.client_id, g.subject
  FROM access_tokens t JOIN grants g ON g.id = t.grant_id AND g.client_id = t.client_id
  WHERE ${onPrimary} AND t.digest = decode($1, 'hex')`

/** Why a credential is not accepted, or cannot be. */
export type Refusal = InvalidCredential | InvalidDpopProof | NonceRequired | AuthorizationUnavailable

/**
 * Yields the identity of the grant that a credential names. It says nothing of whether that grant is still good:
 * `OperationStore` checks that in the statement that reads, so an implementation may cache what it verified, and
 * never a status.
 *
 * Replace it to accept other credentials. `verify` must not log what it is given. What it accepts beyond bearer tokens
 * stands in `AcceptedCredentials`: credentials of the scheme DPoP come to it only when that says so.
 */
export class GrantVerifier extends Context.Service<GrantVerifier, {
  readonly verify: (credential: Credential) => Effect.Effect<GrantIdentity, Refusal | StoreUnavailable>
}>()("financial-agents-gateway/services/verification/GrantVerifier") {
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

  /** Verifies the JWT access tokens of one authorization server (RFC 9068), bound to their sender or not. */
  static readonly layerJwt = (options: JwtIssuer & SenderOptions) =>
    GrantVerifier.layerIssuers({ ...options, issuers: [options] })

  /** Asks one authorization server about each token (RFC 7662). */
  static readonly layerIntrospection = (options: IntrospectionIssuer & SenderOptions) =>
    GrantVerifier.layerIssuers({ ...options, issuers: [options] })

  /**
   * Verifies the tokens of several authorization servers, and with `own` those that `Grants.issue` hands out, beside
   * them. Also tells clients what is accepted (`AcceptedCredentials`). Fails with `AuthorizationMisconfigured`.
   */
  static readonly layerIssuers = (options: IssuersOptions & { readonly own?: GrantVerifier["Service"] }) =>
    Layer.mergeAll(
      Layer.effect(GrantVerifier, makeBeside(options)),
      Layer.succeed(AcceptedCredentials, acceptedBy(options))
    )

  /** Knows exactly these credentials. For tests, and for applications that bring their own sessions. */
  static readonly layerFixed = (identities: ReadonlyMap<string, GrantIdentity>): Layer.Layer<GrantVerifier> =>
    Layer.succeed(GrantVerifier, {
      verify: ({ token }) => orInvalid(identities.get(Redacted.value(token)))
    })
}

/** Tokens of the gateway's own have a form of their own. They are bound to nobody. */
const makeBeside = Effect.fnUntraced(function*(options: IssuersOptions & { readonly own?: GrantVerifier["Service"] }) {
  const verifyOAuth = yield* makeOAuth(options)
  const own = options.senderConstrained === "required" ? undefined : options.own
  return GrantVerifier.of({
    verify: (credential) => {
      const token = Redacted.value(credential.token)
      if (!accessTokenPattern.test(token)) return verifyOAuth(credential, token)
      return own === undefined || credential.scheme !== "Bearer" ? orInvalid(undefined) : own.verify(credential)
    }
  })
})

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
      const token = Redacted.value(credential.token)
      return accessTokenPattern.test(token)
        ? Effect.flatMap(
          Effect.provideService(accessTokenDigest(token), Digest.Digest, digests),
          (digest) => Cache.get(identities, digest)
        )
        : Effect.fail(new InvalidCredential())
    }
  })
})
