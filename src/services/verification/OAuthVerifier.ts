/**
 * Verifies access tokens of authorization servers: the token itself, its sender, and the grant that it names. `src/oauth`
 * verifies tokens and DPoP proofs; this file connects them to grants and to the replay check.
 */
import * as Context from "effect/Context"
import * as Digest from "effect/crypto/Digest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import { type Credential, InvalidCredential, InvalidDpopProof } from "../../domain/Credential.ts"
import {
  type ClientId,
  externalIdentity,
  gatewayClientId,
  type GrantIdentity,
  isIdPrefix,
  IssuerClientId
} from "../../domain/Grant.ts"
import { makeCallLimit } from "../../oauth/CallLimit.ts"
import { AuthorizationMisconfigured, type ClientAuthentication } from "../../oauth/ClientAuthentication.ts"
import { makeDpopNonces } from "../../oauth/DpopNonces.ts"
import { defaultDpopSettings, makeDpopProofVerifier, validateDpopSettings } from "../../oauth/DpopProof.ts"
import { makeIntrospectionVerifier, validateIntrospectionSettings } from "../../oauth/Introspection.ts"
import { layerIntrospectionCircuit } from "../../oauth/IntrospectionLimiter.ts"
import { type IssuerOptions, issuerSettings } from "../../oauth/Issuer.ts"
import { claimedIssuer, makeAccessTokenVerifier, validateAccessTokenSettings } from "../../oauth/JwtAccessToken.ts"
import type { VerifyToken } from "../../oauth/TokenCache.ts"
import { makeConfirm, type VerifiedToken } from "../../oauth/TokenClaims.ts"
import { StoreUnavailable } from "../StoreUnavailable.ts"
import { type GrantProvisioning, makeGrantProvisioning, validateGrantProvisioning } from "./GrantProvisioning.ts"
import { ProofReplay } from "./ProofReplay.ts"

/** Value of `AcceptedCredentials`. */
export interface AcceptedCredentialsShape {
  /** Issuers whose access tokens are accepted (RFC 9728 §2). */
  readonly authorizationServers: ReadonlyArray<string>
  /** Algorithms of DPoP proofs; null if DPoP is not supported. */
  readonly dpopAlgorithms: ReadonlyArray<string> | null
  /** `required`: every token must be sender-constrained. */
  readonly senderConstrained: "required" | "optional"
  /** How a TLS-terminating proxy forwards client certificates; null if there is no such proxy. */
  readonly certificates: ForwardedCertificates | null
}

/** Client certificates that a TLS-terminating proxy forwards in a header. */
export interface ForwardedCertificates {
  /** Name of the header, in lower case. The proxy must remove this header from the requests of its clients. */
  readonly header: string
  /**
   * Trusted proxies: IPv4 or IPv6 addresses, or blocks in CIDR notation. The gateway does not start if an entry is
   * neither.
   */
  readonly proxies: ReadonlyArray<string>
}

/**
 * The credentials that the gateway accepts, for its challenges and metadata. Default: its own bearer tokens.
 * `GrantVerifier.layerIssuers` provides another value.
 */
export const AcceptedCredentials: Context.Reference<AcceptedCredentialsShape> = Context.Reference(
  "financial-agents-gateway/services/verification/AcceptedCredentials",
  {
    defaultValue: (): AcceptedCredentialsShape => ({
      authorizationServers: [],
      dpopAlgorithms: null,
      senderConstrained: "optional",
      certificates: null
    })
  }
)

/** How the gateway maps the clients and grants of an issuer. */
interface GrantMapping {
  /**
   * Prefix of the issuer's client ids in the gateway. With several issuers, each needs its own prefix, so that no issuer can
   * issue tokens for the clients of another. Default: none; a client then equals the client with the same id in the
   * gateway's own tokens.
   */
  readonly clientPrefix?: string
  /** Registers grants from their tokens. Default: only your events register grants (`Grants.register`). */
  readonly grantProvisioning?: GrantProvisioning
}

/** An issuer of JWT access tokens (RFC 9068). */
export interface JwtIssuer extends IssuerOptions, GrantMapping {
  readonly tokens?: "jwt"
  /** How long a verified signature is cached, at most 60 seconds. Default: 60 seconds. */
  readonly signatureTimeToLive?: Duration.Input
}

/** An issuer whose tokens are introspected (RFC 7662). */
export interface IntrospectionIssuer extends Omit<IssuerOptions, "algorithms" | "jwksUri">, GrantMapping {
  readonly tokens: "introspection"
  /** URL of the introspection endpoint. Default: that of the issuer's metadata. */
  readonly endpoint?: string
  readonly client: ClientAuthentication
  /** Limit for one introspection; waiting for a permit counts. Default: 1.5 seconds, less than the time of a request. */
  readonly timeout?: Duration.Input
  /** How long an answer is cached, at most 60 seconds. Default: zero, no cache. */
  readonly answerTimeToLive?: Duration.Input
}

/** How the sender of a token is checked. */
export interface SenderOptions {
  /** `required` refuses tokens that are not sender-constrained (FAPI 2.0 Security Profile §5.3.4). Default: `optional`. */
  readonly senderConstrained?: "required" | "optional"
  /** Settings for DPoP proofs. */
  readonly dpop?: {
    readonly algorithms?: ReadonlyArray<string>
    /** Greatest age of a DPoP proof, apart from `clockTolerance`. Default: one minute. */
    readonly maxAge?: Duration.Input
    /** Greatest difference of a client's clock and the gateway's, in both directions. Default: 5 seconds. */
    readonly clockTolerance?: Duration.Input
    /** 32 bytes that all processes share. With a key, DPoP proofs need a nonce (RFC 9449 §9). */
    readonly nonceKey?: Redacted.Redacted<Uint8Array>
  }
  /** The proxies that end TLS and forward client certificates (RFC 8705). Default: none. */
  readonly certificates?: ForwardedCertificates
}

/** Options for one or more issuers. */
export interface IssuersOptions extends SenderOptions {
  readonly issuers: ReadonlyArray<JwtIssuer | IntrospectionIssuer>
}

type AnyIssuer = JwtIssuer | IntrospectionIssuer

const orMisconfigured = (reason: string | null) =>
  reason === null ? Effect.void : Effect.fail(new AuthorizationMisconfigured({ reason }))

/** Whether a name behind one prefix can equal a name behind another. */
const isAmbiguous = (prefixes: ReadonlyArray<string>) =>
  prefixes.some((prefix, n) => prefixes.some((other, m) => n !== m && other.startsWith(prefix)))

/**
 * Returns what is invalid in the combination of issuers, as one sentence for the operator; null if it is valid. Each issuer
 * is validated on its own.
 */
const validateIssuers = (issuers: ReadonlyArray<AnyIssuer>): string | null => {
  if (issuers.length === 0) return "There must be at least one issuer."
  if (new Set(issuers.map(({ issuer }) => issuer)).size < issuers.length) return "An issuer is named twice."
  if (issuers.filter(({ tokens }) => tokens === "introspection").length > 1) {
    return "Only one issuer can use introspection, because an opaque token does not name its issuer."
  }
  if (issuers.length === 1) return null
  if (isAmbiguous(issuers.map(({ clientPrefix = "" }) => clientPrefix))) {
    return "With several issuers each needs a client prefix, and none may begin with that of another."
  }
  const ownerPrefixes = issuers.flatMap(({ grantProvisioning }) =>
    grantProvisioning === undefined ? [] : [grantProvisioning.ownerPrefix]
  )
  const isUnknown = ownerPrefixes.length > 1 && ownerPrefixes.includes(undefined)
  return isUnknown || isAmbiguous([...new Set(ownerPrefixes.map((prefix = "") => prefix))])
    ? "If several issuers provision grants, each needs an owner prefix. It may equal that of another, whose owners are then the "
      + "same people, but not begin with it."
    : null
}

const makeJwtVerifier = Effect.fnUntraced(function*(options: JwtIssuer) {
  const settings = { ...issuerSettings(options), signatureTimeToLive: options.signatureTimeToLive ?? "1 minute" }
  yield* orMisconfigured(validateAccessTokenSettings(settings))
  return yield* makeAccessTokenVerifier(settings)
})

const makeIntrospectedVerifier = Effect.fnUntraced(function*(options: IntrospectionIssuer) {
  const settings = {
    ...issuerSettings(options),
    endpoint: options.endpoint ?? null,
    client: options.client,
    timeout: Duration.fromInputUnsafe(options.timeout ?? "1500 millis"),
    answerTimeToLive: Duration.fromInputUnsafe(options.answerTimeToLive ?? 0)
  }
  yield* orMisconfigured(validateIntrospectionSettings(settings))
  return yield* Effect.provideContext(
    makeIntrospectionVerifier(settings),
    yield* Layer.build(layerIntrospectionCircuit)
  )
})

/** Most writes of one client that a verification waits for. The limits of its running requests count only verified ones. */
const maxWritesPerClient = 128

/** Makes the limit of the writes of each client: of DPoP proofs and of grants. */
const makeWriteLimit = () =>
  makeCallLimit(
    { max: Infinity, maxOfKey: maxWritesPerClient },
    Effect.fail(
      new StoreUnavailable({
        cause: new Error(`the client waits for its maximum of ${maxWritesPerClient} writes of proofs and grants`)
      })
    )
  )

type WriteLimit = ReturnType<typeof makeWriteLimit>

const makeIssuer = Effect.fnUntraced(function*(options: AnyIssuer, limitWrites: WriteLimit) {
  const { clientPrefix = "", grantProvisioning, issuer } = options
  yield* orMisconfigured(
    isIdPrefix(clientPrefix) ? null : `The client prefix of ${issuer} must be visible ASCII characters.`
  )
  yield* orMisconfigured(grantProvisioning === undefined ? null : validateGrantProvisioning(grantProvisioning))
  const verify: VerifyToken = yield* options.tokens === "introspection"
    ? makeIntrospectedVerifier(options)
    : makeJwtVerifier(options)
  const provision = grantProvisioning === undefined
    ? null
    : yield* makeGrantProvisioning(grantProvisioning, issuerSettings(options))
  const register = (token: VerifiedToken, identity: GrantIdentity) =>
    provision === null ? Effect.void : limitWrites(identity.client_id, provision(token, identity))
  return { clientPrefix, register, verify, isIntrospected: options.tokens === "introspection" }
})

const makeSenderCheck = Effect.fnUntraced(function*(
  { dpop = {}, senderConstrained = "optional" }: SenderOptions,
  limitWrites: WriteLimit
) {
  const settings = {
    ...defaultDpopSettings,
    ...dpop.algorithms === undefined ? {} : { algorithms: dpop.algorithms },
    ...dpop.maxAge === undefined ? {} : { maxAge: Duration.fromInputUnsafe(dpop.maxAge) },
    ...dpop.clockTolerance === undefined ? {} : { clockTolerance: Duration.fromInputUnsafe(dpop.clockTolerance) },
    nonces: dpop.nonceKey === undefined ? null : yield* makeDpopNonces(dpop.nonceKey)
  }
  yield* orMisconfigured(validateDpopSettings(settings))
  const confirm = makeConfirm({ senderConstrained, verifyDpopProof: yield* makeDpopProofVerifier(settings) })
  const replay = yield* ProofReplay
  const check = Effect.fnUntraced(function*(token: VerifiedToken, credential: Credential, client: ClientId) {
    const use = yield* confirm(token, credential)
    if (use !== null && !(yield* limitWrites(client, replay.remember(use)))) {
      return yield* new InvalidDpopProof({ reason: "was used before" })
    }
  })
  return { check, algorithms: settings.algorithms }
})

/** The credentials that the verifier accepts, for `AcceptedCredentials`. */
export const acceptedBy = (options: IssuersOptions): AcceptedCredentialsShape => ({
  authorizationServers: options.issuers.map(({ issuer }) => issuer),
  dpopAlgorithms: options.dpop?.algorithms ?? defaultDpopSettings.algorithms,
  senderConstrained: options.senderConstrained ?? "optional",
  certificates: options.certificates ?? null
})

/**
 * Makes a verifier for the tokens of these issuers. It yields the identity of the grant that a token names, and does not
 * check the standing of that grant. Fails with `AuthorizationMisconfigured`.
 */
export const makeOAuthVerifier = Effect.fnUntraced(function*(options: IssuersOptions) {
  yield* orMisconfigured(validateIssuers(options.issuers))
  const limitWrites = makeWriteLimit()
  const issuers = new Map(
    yield* Effect.forEach(
      options.issuers,
      (issuer) => Effect.map(makeIssuer(issuer, limitWrites), (made) => [issuer.issuer, made] as const)
    )
  )
  const introspected = [...issuers.values()].find(({ isIntrospected }) => isIntrospected)
  const [first] = issuers.values()
  const onlyJwt = issuers.size === 1 && introspected === undefined ? first : undefined
  const sender = yield* makeSenderCheck(options, limitWrites)
  const identityOf = yield* makeIdentities

  /** A token of an unknown issuer is sent to no server, because it may be another service's secret. */
  const issuerOf = (token: string) => {
    // The verifier of JWTs refuses tokens of other issuers itself.
    if (onlyJwt !== undefined) return onlyJwt
    const claimed = claimedIssuer(token)
    return claimed === null ? introspected : issuers.get(claimed)
  }

  return Effect.fnUntraced(function*(credential: Credential, token: string) {
    const issuer = issuerOf(token)
    if (issuer === undefined) return yield* new InvalidCredential()
    const verified = yield* issuer.verify(credential.token, credential.resource)
    const identity = yield* identityOf(verified, issuer.clientPrefix)
    yield* sender.check(verified, credential, identity.client_id)
    yield* issuer.register(verified, identity)
    return identity
  })
})

/** Makes the mapping from verified tokens to the identities of their grants. A cached token is mapped once. */
const makeIdentities = Effect.gen(function*() {
  const digests = yield* Digest.Digest
  const known = new WeakMap<VerifiedToken, GrantIdentity>()

  const derive = Effect.fnUntraced(function*(verified: VerifiedToken, clientPrefix: string) {
    const { grant, issuer, scopes, subject } = verified
    const client_id = gatewayClientId(clientPrefix, IssuerClientId.make(verified.client_id))
    const named = yield* Effect.provideService(
      externalIdentity({
        issuer,
        client_id,
        subject,
        grant,
        authorization_details: verified.claims["authorization_details"]
      }),
      Digest.Digest,
      digests
    )
    const identity: GrantIdentity = { ...named, limited_to: scopes }
    known.set(verified, identity)
    return identity
  })

  return (verified: VerifiedToken, clientPrefix: string): Effect.Effect<GrantIdentity, InvalidCredential> => {
    const identity = known.get(verified)
    return identity === undefined ? derive(verified, clientPrefix) : Effect.succeed(identity)
  }
})
