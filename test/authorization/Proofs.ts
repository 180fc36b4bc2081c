/**
 * DPoP proofs (RFC 9449 §4.2): those that are as they should be, and any other.
 */
import { calculateJwkThumbprint, type JWK } from "jose"
import { createHash, randomUUID } from "node:crypto"
import { type Members, type PrivateKey, publicPart, signJwt } from "./Keys.ts"

/** What a proof is for. */
export interface ProofRequest {
  /** Of the agent. */
  readonly key: PrivateKey
  readonly token: string
  readonly url: string
  readonly method?: string
  readonly nonce?: string
  /** Take the place of the claims that a proof should have; undefined leaves one out. */
  readonly claims?: Members
  readonly header?: Members
}

export const sha256 = (text: string): string => createHash("sha256").update(text).digest("base64url")

export const now = (): number => Math.floor(Date.now() / 1000)

/** Of a key, whichever half of it is given (RFC 7638). */
export const thumbprintOf = (key: JWK): Promise<string> => calculateJwkThumbprint(key)

/** A proof of its own for each call, unless the claims say otherwise. */
export const makeProof = ({ claims, header, key, method = "GET", nonce, token, url }: ProofRequest): string => {
  const { kid: _, ...jwk } = publicPart(key)
  return signJwt(
    key,
    "ES256",
    { alg: "ES256", typ: "dpop+jwt", jwk, ...header },
    { jti: randomUUID(), htm: method, htu: url, iat: now(), ath: sha256(token), nonce, ...claims }
  )
}
