/**
 * Verifies a credential and yields the identity of its grant. The room `services/verification` leads from a credential to a grant. Read this file
 * first.
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
  accessTokenDigest,
  accessTokenPattern,
  AuthorizationUnavailable,
  bearer,
  type Credential,
  InvalidCredential,
  InvalidDpopProof,
  NonceRequired
} from "../../domain/Credential.ts"
import type { GrantIdentity } from "../../domain/Grant.ts"
import { MemoryLedger } from "../memory/MemoryLedger.ts"
import { onPrimaryOrStandby } from "../sql/reads/readStatements.ts"
import { orUnavailable, type StoreUnavailable } from "../StoreUnavailable.ts"
import {
  acceptedBy,
  AcceptedCredentials,
  type AcceptedCredentialsShape,
  type IntrospectionIssuer,
  type IssuersOptions,
  type JwtIssuer,
  makeOAuthVerifier,
  type SenderOptions
} from "./OAuthVerifier.ts"

export type { AuthorizationMisconfigured } from "../../oauth/ClientAuthentication.ts"
export { AcceptedCredentials, type AcceptedCredentialsShape }
export { AuthorizationUnavailable, bearer, type Credential, InvalidCredential, InvalidDpopProof, NonceRequired }
export { ProofReplay } from "./ProofReplay.ts"

/** A standby must not answer just so: it may lack a token that was just issued, and would make it invalid. */
const identityOfToken = `
  SELECT t.grant_id, t.client_id, g.subject
  FROM access_tokens t JOIN grants g ON g.id = t.grant_id AND g.client_id = t.client_id
  WHERE ${onPrimaryOrStandby} AND t.digest = decode($1, 'hex')`

/** Why a credential is refused, or cannot be verified. */
export type Refusal = InvalidCredential | InvalidDpopProof | NonceRequired | AuthorizationUnavailable

/**
 * Yields the identity of the grant that a credential names. It does not check the standing of the grant:
 * `OperationStore` checks that in the statement that reads. An implementation may therefore cache verified credentials, but
 * never the standing of a grant.
 *
 * Replace it to accept other credentials. `verify` must not log its argument. Provide `AcceptedCredentials` with it:
 * credentials of the scheme DPoP reach `verify` only if `AcceptedCredentials` has DPoP algorithms.
 */
export class GrantVerifier extends Context.Service<GrantVerifier, {
  readonly verify: (credential: Credential) => Effect.Effect<GrantIdentity, Refusal | StoreUnavailable>
}>()("financial-agents-gateway/services/verification/GrantVerifier") {
  /** Verifies the gateway's own opaque tokens (`Grants.issue`). */
  static readonly layer: Layer.Layer<GrantVerifier, never, SqlClient.SqlClient | Digest.Digest> = Layer.effect(
    GrantVerifier,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      return yield* makeOpaqueVerifier((digest) =>
        Effect.map(orUnavailable(sql.unsafe<GrantIdentity>(identityOfToken, [digest])), ([identity]) => identity)
      )
    })
  )

  /** Verifies the tokens of `Grants.layerMemory`. */
  static readonly layerMemory: Layer.Layer<GrantVerifier, never, MemoryLedger | Digest.Digest> = Layer.effect(
    GrantVerifier,
    Effect.gen(function*() {
      const memory = yield* MemoryLedger
      return yield* makeOpaqueVerifier((digest) => Effect.sync(() => memory.tokens.get(digest)))
    })
  )

  /** Verifies the JWT access tokens of one authorization server (RFC 9068), sender-constrained or not. */
  static readonly layerJwt = (options: JwtIssuer & SenderOptions) =>
    GrantVerifier.layerIssuers({ ...options, issuers: [options] })

  /** Introspects each token at one authorization server (RFC 7662). */
  static readonly layerIntrospection = (options: IntrospectionIssuer & SenderOptions) =>
    GrantVerifier.layerIssuers({ ...options, issuers: [options] })

  /**
   * Verifies the tokens of several authorization servers, and with `own` also the gateway's own tokens (`Grants.issue`).
   * Provides `AcceptedCredentials` too. Fails with `AuthorizationMisconfigured`.
   */
  static readonly layerIssuers = (options: IssuersOptions & { readonly own?: GrantVerifier["Service"] }) =>
    Layer.mergeAll(
      Layer.effect(GrantVerifier, makeIssuersVerifier(options)),
      Layer.succeed(AcceptedCredentials, acceptedBy(options))
    )

  /** Accepts exactly these tokens. For tests, and for applications with their own sessions. */
  static readonly layerFixed = (identities: ReadonlyMap<string, GrantIdentity>): Layer.Layer<GrantVerifier> =>
    Layer.succeed(GrantVerifier, {
      verify: ({ token }) => orInvalid(identities.get(Redacted.value(token)))
    })
}

/**
 * Sends each token to its verifier: the gateway's own tokens have a recognizable form. They are never sender-constrained, so
 * they are refused if all tokens must be.
 */
const makeIssuersVerifier = Effect.fnUntraced(
  function*(options: IssuersOptions & { readonly own?: GrantVerifier["Service"] }) {
    const verifyOAuth = yield* makeOAuthVerifier(options)
    const own = options.senderConstrained === "required" ? undefined : options.own
    return GrantVerifier.of({
      verify: (credential) => {
        const token = Redacted.value(credential.token)
        if (!accessTokenPattern.test(token)) return verifyOAuth(credential, token)
        return own === undefined || credential.scheme !== "Bearer" ? orInvalid(undefined) : own.verify(credential)
      }
    })
  }
)

const orInvalid = (identity: GrantIdentity | undefined): Effect.Effect<GrantIdentity, InvalidCredential> =>
  identity === undefined ? Effect.fail(new InvalidCredential()) : Effect.succeed(identity)

/**
 * Verifies opaque tokens. The grant of a token never changes (the database refuses it), so up to 10,000 identities are
 * cached for one minute each, under the token's SHA-256.
 */
const makeOpaqueVerifier = Effect.fnUntraced(function*(
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
        ? Effect.flatMap(accessTokenDigest(digests, token), (digest) => Cache.get(identities, digest))
        : Effect.fail(new InvalidCredential())
    }
  })
})
