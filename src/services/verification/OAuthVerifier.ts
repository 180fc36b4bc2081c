/**
 * Verifies access tokens of authorization servers: whose a token is, whether it is in the hands of whom it was issued to,
 * and which grant of the gateway stands behind it. `src/oauth` knows what tokens and proofs are; here they meet the rows.
 */
import * as Digest from "effect/crypto/Digest"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import { type Credential, InvalidCredential, InvalidDpopProof } from "../../domain/Credential.ts"
import { externalGrantId, ExternalId, type GrantIdentity, Issuer, PairwiseSubject } from "../../domain/Grant.ts"
import { gatewayClientId, isClientPrefix, IssuerClientId } from "../../domain/IssuerClient.ts"
import type { ClientAuthentication } from "../../oauth/ClientAuthentication.ts"
import { makeConfirm } from "../../oauth/Confirmation.ts"
import { makeDpopNonces } from "../../oauth/DpopNonces.ts"
import { defaultDpopSettings, makeDpopProofs, validateDpopSettings } from "../../oauth/DpopProof.ts"
import { makeIntrospection, validateIntrospectionSettings } from "../../oauth/Introspection.ts"
import { layerIntrospectionCircuit } from "../../oauth/IntrospectionLane.ts"
import { type IssuerOptions, issuerSettings } from "../../oauth/Issuer.ts"
import { claimedIssuer, makeAccessTokens, validateAccessTokenSettings } from "../../oauth/JwtAccessToken.ts"
import type { VerifyToken } from "../../oauth/TokenCache.ts"
import type { VerifiedToken } from "../../oauth/VerifiedToken.ts"
import type { AcceptedCredentialsShape, ForwardedCertificates } from "./AcceptedCredentials.ts"
import { type GrantProvisioning, makeGrantProvisioning, validateGrantProvisioning } from "./GrantProvisioning.ts"
import { ProofReplay } from "./ProofReplay.ts"

/** The gateway cannot verify tokens as it was told to. */
export class AuthorizationMisconfigured extends Data.TaggedError("AuthorizationMisconfigured")<{
  /** A sentence for whoever configures it. It names no secret. */
  readonly reason: string
}> {
  override get message() {
    return this.reason
  }
}

/** What the gateway makes of the clients and grants of an issuer. */
interface Trust {
  /**
   * Stands in front of the issuer's client ids wherever the gateway names clients. With several issuers each has its own,
   * so that none can speak for the clients of another. Default: nothing; its clients are then those of the gateway's own
   * tokens that have the same ids.
   */
  readonly clientPrefix?: string
  /** Registers the grants of tokens that are seen for the first time. Default: your events do (`Grants.register`). */
  readonly grantProvisioning?: GrantProvisioning
}

/** An issuer of JWT access tokens (RFC 9068). */
export interface JwtIssuer extends IssuerOptions, Trust {
  readonly tokens?: "jwt"
  /** How long the result of a signature's verification is kept: a minute at most, which is the default. */
  readonly signatureTimeToLive?: Duration.Input
}

/** An issuer that is asked about each token (RFC 7662). */
export interface IntrospectionIssuer extends Omit<IssuerOptions, "algorithms" | "jwksUri">, Trust {
  readonly tokens: "introspection"
  /** Default: what the issuer's metadata says. */
  readonly endpoint?: string
  readonly client: ClientAuthentication
  /** For one question, the wait for its place included. Default: 1.5 seconds, which is less than what a request has. */
  readonly timeout?: Duration.Input
  /** How long an answer may be used again, a minute at most. Default: not at all. */
  readonly answerTimeToLive?: Duration.Input
}

/** What must be shown of the sender of a token. */
export interface SenderOptions {
  /** `required` refuses tokens that are bound to no sender (FAPI 2.0 Security Profile §5.3.4). Default: `optional`. */
  readonly senderConstrained?: "required" | "optional"
  /** For DPoP proofs. */
  readonly dpop?: {
    readonly algorithms?: ReadonlyArray<string>
    /** How old a proof may be, besides the difference of the clocks. Default: a minute. */
    readonly maxAge?: Duration.Input
    /** How far the clock of a client may be from ours, in both directions. Default: 5 seconds. */
    readonly clockTolerance?: Duration.Input
    /** 32 bytes that all processes share: proofs need a nonce then (RFC 9449 §9). */
    readonly nonceKey?: Redacted.Redacted<Uint8Array>
  }
  /** Where TLS ends in front of the gateway: who forwards the certificates of clients (RFC 8705). Default: nobody. */
  readonly certificates?: ForwardedCertificates
}

/** Several issuers at once. */
export interface IssuersOptions extends SenderOptions {
  readonly issuers: ReadonlyArray<JwtIssuer | IntrospectionIssuer>
}

type AnyIssuer = JwtIssuer | IntrospectionIssuer

const orMisconfigured = (reason: string | null) =>
  reason === null ? Effect.void : Effect.fail(new AuthorizationMisconfigured({ reason }))

/** What is wrong with issuers that are each without fault, as a sentence; or null. */
const validateIssuers = (issuers: ReadonlyArray<AnyIssuer>): string | null => {
  if (issuers.length === 0) return "There must be at least one issuer."
  if (new Set(issuers.map(({ issuer }) => issuer)).size < issuers.length) return "An issuer is named twice."
  if (issuers.filter(({ tokens }) => tokens === "introspection").length > 1) {
    return "Only one issuer can be asked about tokens: an opaque token does not say whom to ask."
  }
  if (issuers.length === 1) return null
  const prefixes = issuers.map(({ clientPrefix = "" }) => clientPrefix)
  const isAmbiguous = prefixes.some((prefix, n) =>
    prefix === "" || prefixes.some((other, m) => n !== m && other.startsWith(prefix))
  )
  return isAmbiguous
    ? "With several issuers each needs a client prefix, and none may begin with that of another."
    : null
}

const makeJwt = Effect.fnUntraced(function*(options: JwtIssuer) {
  const settings = { ...issuerSettings(options), signatureTimeToLive: options.signatureTimeToLive ?? "1 minute" }
  yield* orMisconfigured(validateAccessTokenSettings(settings))
  return yield* makeAccessTokens(settings)
})

const makeIntrospected = Effect.fnUntraced(function*(options: IntrospectionIssuer) {
  const settings = {
    ...issuerSettings(options),
    endpoint: options.endpoint ?? null,
    client: options.client,
    timeout: Duration.fromInputUnsafe(options.timeout ?? "1500 millis"),
    answerTimeToLive: Duration.fromInputUnsafe(options.answerTimeToLive ?? 0)
  }
  yield* orMisconfigured(validateIntrospectionSettings(settings))
  return yield* Effect.catchTag(
    makeIntrospection(settings),
    "InvalidClientAuthentication",
    ({ reason }) => Effect.fail(new AuthorizationMisconfigured({ reason }))
  ).pipe(Effect.provideContext(yield* Layer.build(layerIntrospectionCircuit)))
})

const makeIssuer = Effect.fnUntraced(function*(options: AnyIssuer) {
  const { clientPrefix = "", grantProvisioning, issuer } = options
  yield* orMisconfigured(
    isClientPrefix(clientPrefix) ? null : `The client prefix of ${issuer} must be visible ASCII characters.`
  )
  yield* orMisconfigured(grantProvisioning === undefined ? null : validateGrantProvisioning(grantProvisioning))
  const verify: VerifyToken = yield* options.tokens === "introspection" ? makeIntrospected(options) : makeJwt(options)
  const register = grantProvisioning === undefined
    ? () => Effect.void
    : yield* makeGrantProvisioning(grantProvisioning, issuerSettings(options))
  return { clientPrefix, register, verify, isIntrospected: options.tokens === "introspection" }
})

const makeSenderCheck = Effect.fnUntraced(function*({ dpop = {}, senderConstrained = "optional" }: SenderOptions) {
  const settings = {
    ...defaultDpopSettings,
    ...dpop.algorithms === undefined ? {} : { algorithms: dpop.algorithms },
    ...dpop.maxAge === undefined ? {} : { maxAge: Duration.fromInputUnsafe(dpop.maxAge) },
    ...dpop.clockTolerance === undefined ? {} : { clockTolerance: Duration.fromInputUnsafe(dpop.clockTolerance) },
    nonces: dpop.nonceKey === undefined ? null : yield* makeDpopNonces(dpop.nonceKey)
  }
  yield* orMisconfigured(validateDpopSettings(settings))
  const confirm = makeConfirm({ senderConstrained, verifyProof: yield* makeDpopProofs(settings) })
  const replay = yield* ProofReplay
  /** A proof counts as used once everything else is in order. */
  const check = Effect.fnUntraced(function*(token: VerifiedToken, credential: Credential) {
    const use = yield* confirm(token, credential)
    if (use !== null && !(yield* replay.remember(use))) {
      return yield* new InvalidDpopProof({ reason: "was used before" })
    }
  })
  return { check, algorithms: settings.algorithms }
})

/** What the verifier accepts, for `AcceptedCredentials`. */
export const acceptedBy = (options: IssuersOptions): AcceptedCredentialsShape => ({
  authorizationServers: options.issuers.map(({ issuer }) => issuer),
  dpopAlgorithms: options.dpop?.algorithms ?? defaultDpopSettings.algorithms,
  senderConstrained: options.senderConstrained ?? "optional",
  certificates: options.certificates ?? null
})

/**
 * Makes a verifier for the tokens of these issuers. It yields whose grant a token names, and never whether that grant is
 * still good.
 */
export const makeOAuth = Effect.fnUntraced(function*(options: IssuersOptions) {
  yield* orMisconfigured(validateIssuers(options.issuers))
  const issuers = new Map(
    yield* Effect.forEach(
      options.issuers,
      (issuer) => Effect.map(makeIssuer(issuer), (made) => [issuer.issuer, made] as const)
    )
  )
  const introspected = [...issuers.values()].find(({ isIntrospected }) => isIntrospected)
  const sender = yield* makeSenderCheck(options)
  const digests = yield* Digest.Digest

  return Effect.fnUntraced(function*(credential: Credential, token: string) {
    const named = claimedIssuer(token)
    // A token of no issuer that we know goes to nobody: it may be somebody else's secret.
    const issuer = named === null ? introspected : issuers.get(named)
    if (issuer === undefined) return yield* new InvalidCredential()
    const verified = yield* issuer.verify(credential.token)
    const client_id = gatewayClientId(issuer.clientPrefix, IssuerClientId.make(verified.client_id))
    if (client_id === null) return yield* new InvalidCredential()
    yield* sender.check(verified, credential)
    const subject = PairwiseSubject.make(verified.subject)
    const grant_id = yield* Effect.provideService(
      externalGrantId(Issuer.make(verified.issuer), client_id, ExternalId.make(verified.grant)),
      Digest.Digest,
      digests
    )
    const identity: GrantIdentity = { grant_id, client_id, subject, limited_to: verified.scopes }
    yield* issuer.register(verified, identity)
    return identity
  })
})
