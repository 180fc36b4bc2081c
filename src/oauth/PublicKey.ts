/** Imports public keys from JSON Web Keys (RFC 7517), to verify signatures. Private and symmetric keys are refused. */
import * as Effect from "effect/Effect"
import { importJWK, type JWK } from "jose"
import { isJsonObject } from "../http/JsonExchange.ts"

/** A public key for one algorithm. */
export interface PublicKey {
  readonly kid: string | undefined
  readonly algorithm: string
  readonly key: CryptoKey
  /** The key parameters as text: equal for equal keys. */
  readonly material: string
}

/** Members of private and symmetric keys (RFC 7518 §6, RFC 9964 §3). */
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

/** Bits of an RSA modulus. Fewer are weak; with more, a client could make each verification slow. */
const modulusBits = { least: 2048, most: 8192 }

/** Bounds the length of the base64url text before the import. `isStrong` checks the exact bits after it. */
const isBoundedRsa = ({ e, n }: JWK): boolean =>
  typeof n === "string" && typeof e === "string" && n.length <= Math.ceil(modulusBits.most / 6) + 1 && e.length <= 6

/** Whether the members of a JSON value are those of a public key for signatures of this algorithm. */
const isKeyFor = (jwk: unknown, algorithm: string): jwk is JWK => {
  if (!isJsonObject(jwk) || privateMembers.some((member) => member in jwk)) return false
  const { crv, kty } = keyTypeOf(algorithm)
  const { alg, key_ops, kid, use } = jwk
  return jwk["kty"] === kty
    && (crv === undefined || jwk["crv"] === crv)
    && (kty !== "RSA" || isBoundedRsa(jwk))
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

/** Imports a public key for one algorithm. Null if the value is no such key, or the key is too weak. */
export const importPublicKey = (jwk: unknown, algorithm: string): Effect.Effect<PublicKey | null> => {
  if (!isKeyFor(jwk, algorithm)) return Effect.succeed(null)
  // Import the key parameters alone: `ext` and `key_ops` would restrict the imported key.
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
