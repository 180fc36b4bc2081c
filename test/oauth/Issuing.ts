/**
 * What an authorization server and its clients make: keys, tokens and proofs. Nothing here is derived from `src`.
 */
import { Clock, Effect, Redacted } from "effect"
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, type JWTHeaderParameters, SignJWT } from "jose"
import { createHash } from "node:crypto"
import type { Credential } from "../../src/domain/Credential.ts"

export const issuer = "https://as.test"
export const audience = "https://gateway.test"
export const epoch = 1_800_000_000

export interface Signer {
  readonly algorithm: string
  readonly privateKey: CryptoKey
  readonly privateJwk: JWK
  readonly jwk: JWK
}

/** A key pair. Those of the same name are the same in all tests of a file, because making one takes time. */
const signers = new Map<string, Promise<Signer>>()

const makeSigner = async (algorithm: string, kid: string): Promise<Signer> => {
  const { privateKey, publicKey } = await generateKeyPair(algorithm, { extractable: true })
  const named = { kid, alg: algorithm }
  return {
    algorithm,
    privateKey,
    privateJwk: { ...await exportJWK(privateKey), ...named },
    jwk: { ...await exportJWK(publicKey), ...named, use: "sig" }
  }
}

export const signerOf = (kid: string, algorithm = "ES256"): Effect.Effect<Signer> =>
  Effect.promise(() => {
    const name = `${algorithm} ${kid}`
    if (!signers.has(name)) signers.set(name, makeSigner(algorithm, kid))
    return signers.get(name)!
  })

/** Changes to members: `undefined` takes one away. */
export type Changes = Readonly<Record<string, unknown>>

const seconds = Effect.map(Clock.currentTimeMillis, (millis) => millis / 1000)

export const sign = (signer: Signer, header: Changes, claims: Changes): Effect.Effect<string> =>
  Effect.promise(() => {
    const jwt = new SignJWT(JSON.parse(JSON.stringify(claims)))
    return jwt.setProtectedHeader(JSON.parse(JSON.stringify(header)) as JWTHeaderParameters).sign(signer.privateKey)
  })

/** The claims of a token that is good for five minutes. */
export const claimsOf = (now: number, changes: Changes = {}): Changes => ({
  iss: issuer,
  aud: audience,
  exp: now + 300,
  iat: now,
  jti: "token-1",
  sub: "subject-1",
  client_id: "agent-1",
  scope: "operations:read payments:write",
  grant_id: "grant-1",
  ...changes
})

export const tokenOf = Effect.fnUntraced(function*(signer: Signer, claims: Changes = {}, header: Changes = {}) {
  return yield* sign(
    signer,
    { alg: signer.algorithm, typ: "at+jwt", kid: signer.jwk.kid, ...header },
    claimsOf(yield* seconds, claims)
  )
})

export const athOf = (token: string): string => createHash("sha256").update(token).digest("base64url")

/** RFC 7638 §3, by hand. */
export const thumbprintOf = ({ crv, e, kty, n, x, y }: JWK): string =>
  createHash("sha256").update(JSON.stringify({ crv, e, kty, n, x, y })).digest("base64url")

/** A proof that is good for the request of `credentialOf`. */
export const proofOf = Effect.fnUntraced(function*(
  signer: Signer,
  token: string,
  claims: Changes = {},
  header: Changes = {}
) {
  const { alg: _, kid: __, use: ___, ...jwk } = signer.jwk
  return yield* sign(signer, { alg: signer.algorithm, typ: "dpop+jwt", jwk, ...header }, {
    jti: "proof-1",
    htm: "GET",
    htu: `${audience}/v1/operations`,
    iat: yield* seconds,
    ath: athOf(token),
    ...claims
  })
})

export const credentialOf = (token: string, changes: Partial<Credential> = {}): Credential => ({
  scheme: "Bearer",
  token: Redacted.make(token),
  proof: null,
  certificate: null,
  method: "GET",
  url: `${audience}/v1/operations`,
  ...changes
})

/** With a proof. */
export const provenOf = (token: string, proof: string, changes: Partial<Credential> = {}): Credential =>
  credentialOf(token, { scheme: "DPoP", proof: Redacted.make(proof), ...changes })
