/**
 * Keys that verify signatures, as JSON Web Keys (RFC 7517): public halves of key pairs, and no other.
 */
import * as Effect from "effect/Effect"
import { importJWK, type JWK } from "jose"
import { isJsonObject } from "../http/JsonBody.ts"

/** A key, and for what it may be used. */
export interface PublicKey {
  readonly kid: string | undefined
  readonly algorithm: string
  readonly key: CryptoKey
  /** Equal for equal keys. */
  readonly material: string
}

/** Members that belong to no public key (RFC 7518 §6, RFC 9964 §3). */
const privateMembers = ["d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"]

const keyTypeOf = (algorithm: string): { readonly kty: string; readonly crv?: string } => {
  switch (algorithm) {
    case "ES256":
      return { kty: "EC", crv: "P-256" }
    case "ES384":
      return { kty: "EC", crv: "P-384" }
    case "ES512":
      return { kty: "EC", crv: "P-521" }
    case "EdDSA":
    case "Ed25519":
      return { kty: "OKP", crv: "Ed25519" }
    default:
      return { kty: "RSA" }
  }
}

/** Bits of an RSA modulus: fewer are weak, and more would let anybody make us calculate for long. */
const modulusBits = { least: 2048, most: 8192 }

/** From what base64url takes for so many bits; the exact length is checked once the key is imported. */
const isModest = ({ e, n }: JWK): boolean =>
  typeof n === "string" && typeof e === "string" && n.length <= Math.ceil(modulusBits.most / 6) + 1 && e.length <= 6

/** Whether the JSON value is a public key for signatures of this algorithm, as far as can be seen without importing it. */
const isKeyFor = (jwk: unknown, algorithm: string): jwk is JWK => {
  if (!isJsonObject(jwk) || privateMembers.some((member) => member in jwk)) return false
  const { crv, kty } = keyTypeOf(algorithm)
  const { alg, key_ops, kid, use } = jwk
  return jwk["kty"] === kty
    && (crv === undefined || jwk["crv"] === crv)
    && (kty !== "RSA" || isModest(jwk))
    && (alg === undefined || alg === algorithm)
    && (use === undefined || use === "sig")
    && (key_ops === undefined || Array.isArray(key_ops) && key_ops.includes("verify"))
    && (kid === undefined || typeof kid === "string")
}

const isStrong = ({ algorithm }: CryptoKey): boolean => {
  if (!("modulusLength" in algorithm)) return true
  const bits = algorithm.modulusLength as number
  return bits >= modulusBits.least && bits <= modulusBits.most
}

/** Imports a key for one algorithm. Null when it is none, or too weak for it. */
export const importPublicKey = (jwk: unknown, algorithm: string): Effect.Effect<PublicKey | null> => {
  if (!isKeyFor(jwk, algorithm)) return Effect.succeed(null)
  // What else a key says of itself is not for the import: `ext`, and operations of which one is enough.
  const { crv, e, kid, kty, n, x, y } = jwk
  const bare = Object.fromEntries(Object.entries({ crv, e, kty, n, x, y }).filter(([, value]) => value !== undefined))
  return Effect.tryPromise(() => importJWK(bare as JWK, algorithm)).pipe(
    Effect.map((key) =>
      key instanceof Uint8Array || key.type !== "public" || !isStrong(key)
        ? null
        : { kid, algorithm, key, material: JSON.stringify(bare) }
    ),
    Effect.orElseSucceed(() => null)
  )
}
