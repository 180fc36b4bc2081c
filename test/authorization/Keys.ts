/**
 * Key pairs of authorization servers and agents, and JWTs that are signed with them: those that are as they should be,
 * and any other.
 */
import { exportJWK, generateKeyPair, type JWK } from "jose"
import * as crypto from "node:crypto"

/** How JWTs are signed. One RSA key serves both of its algorithms, and one Ed25519 key both names of its own. */
export type Algorithm = "ES256" | "EdDSA" | "Ed25519" | "PS256" | "RS256"

/** A private key, as its owner keeps it. */
export type PrivateKey = JWK & { readonly kid: string }

/** Members of a JSON object. Those that are undefined are left out where it is written. */
export interface Members {
  readonly [name: string]: unknown
}

export const generateKey = async (algorithm: Algorithm): Promise<PrivateKey> => {
  const { privateKey } = await generateKeyPair(algorithm, { extractable: true })
  return { ...await exportJWK(privateKey), kid: crypto.randomUUID() }
}

/** One key of each kind. That of RSA takes a while, so it is made only where it is wanted. */
export const generateKeys = (withRsa = true): Promise<ReadonlyArray<PrivateKey>> =>
  Promise.all([generateKey("ES256"), generateKey("Ed25519"), ...withRsa ? [generateKey("PS256")] : []])

const typeOf = (algorithm: Algorithm) => algorithm === "ES256" ? "EC" : algorithm.startsWith("Ed") ? "OKP" : "RSA"

/** The first key that can sign so. */
export const keyFor = (keys: ReadonlyArray<PrivateKey>, algorithm: Algorithm): PrivateKey =>
  keys.find(({ kty }) => kty === typeOf(algorithm))!

const privateMembers = new Set(["d", "p", "q", "dp", "dq", "qi"])

export const publicPart = (key: JWK): JWK =>
  Object.fromEntries(Object.entries(key).filter(([name]) => !privateMembers.has(name)))

/** By their JWK: importing a key takes longer than signing with it. */
const imported = new WeakMap<PrivateKey, crypto.KeyObject>()

const importKey = (key: PrivateKey): crypto.KeyObject => {
  const known = imported.get(key) ?? crypto.createPrivateKey({ key: key as crypto.JsonWebKey, format: "jwk" })
  imported.set(key, known)
  return known
}

/** The signature of this algorithm, whatever a header says (RFC 7518 §3, RFC 8037 §3.1). */
export const signBytes = (key: PrivateKey, algorithm: Algorithm, input: string): Buffer => {
  const bytes = Buffer.from(input)
  const own = importKey(key)
  switch (algorithm) {
    case "ES256":
      return crypto.sign("sha256", bytes, { key: own, dsaEncoding: "ieee-p1363" })
    case "PS256":
      return crypto.sign("sha256", bytes, {
        key: own,
        padding: crypto.constants.RSA_PKCS1_PSS_PADDING,
        saltLength: 32
      })
    case "RS256":
      return crypto.sign("sha256", bytes, own)
    default:
      return crypto.sign(null, bytes, own)
  }
}

export const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url")

/** A JWT with exactly this header and these claims. */
export const signJwt = (key: PrivateKey, algorithm: Algorithm, header: unknown, claims: unknown): string => {
  const input = `${encode(header)}.${encode(claims)}`
  return `${input}.${signBytes(key, algorithm, input).toString("base64url")}`
}

/** An access token as its authorization server would sign it, but for what the header says otherwise. */
export const signToken = (
  keys: ReadonlyArray<PrivateKey>,
  algorithm: Algorithm,
  claims: Members,
  header: Members = {}
): string => {
  const key = keyFor(keys, algorithm)
  return signJwt(key, algorithm, { alg: algorithm, typ: "at+jwt", kid: key.kid, ...header }, claims)
}
