/**
 * Variants: credentials that differ little from valid ones and must be refused. This file has their type, and edits of
 * the text of any JWT.
 */
import * as fc from "fast-check"
import type { PrivateKey } from "../../fixtures/authorization/Keys.ts"

/** A credential to send. The gateway must refuse it. */
export interface Attempt {
  readonly scheme: "Bearer" | "DPoP"
  readonly token: string
  readonly proof: string | null
}

/** The valid credentials and keys that variants start from. */
export interface Materials {
  readonly issuer: string
  readonly audience: string
  /** The URL of the GET request. */
  readonly url: string
  /** The signing keys of the authorization server, for variants with a valid signature. */
  readonly keys: ReadonlyArray<PrivateKey>
  /** Foreign keys of the same kinds. */
  readonly strangers: ReadonlyArray<PrivateKey>
  /** The agent's key, which bound tokens are bound to. */
  readonly agentKey: PrivateKey
  readonly agentThumbprint: string
  /** Good bearer tokens, signed with ES256, EdDSA and PS256. */
  readonly tokens: readonly [string, string, string]
  /** A token that is bound to the agent's key. */
  readonly bound: string
}

/** One way to make an invalid credential from valid ones. */
export interface Variant {
  /** The rule that it breaks. All variants of one kind must have the same verdict. */
  readonly kind: string
  /** Details for the message of a failure. */
  readonly note: string
  readonly make: (materials: Materials) => Attempt
}

export const variant = (kind: string, note: unknown, make: Variant["make"]): Variant => ({
  kind,
  note: JSON.stringify(note) ?? "",
  make
})

/** Seed of the variants, from `VARIANT_SEED`. The seed of a failure repeats its variants, with new keys. */
export const variantSeed = (): number => Number(process.env["VARIANT_SEED"] ?? 20261121)

/** An attempt with a bearer token alone. */
export const bearer = (token: string): Attempt => ({ scheme: "Bearer", token, proof: null })

/** A change to the text of a JWT. It must change the content or its encoding. */
interface Edit {
  readonly kind: string
  readonly note: string
  readonly apply: (jwt: string) => string
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

const bytesOf = (segment: string) => Buffer.from(segment, "base64url")

const signatureOf = (jwt: string) => jwt.slice(jwt.lastIndexOf(".") + 1)

/** Replaces one character with another of the 64. */
const replaced: fc.Arbitrary<Edit> = fc.tuple(fc.nat(), fc.integer({ min: 1, max: 63 })).map(([place, shift]) => ({
  kind: "with one character replaced",
  note: JSON.stringify({ place, shift }),
  apply: (jwt) => {
    const at = place % jwt.length
    const edited = replaceAt(jwt, at, shift)
    // The last character of a signature has unused bits: `unusedBits` changes those.
    return bytesOf(signatureOf(edited)).equals(bytesOf(signatureOf(jwt))) && at > jwt.lastIndexOf(".")
      ? replaceAt(jwt, at - 1, shift)
      : edited
  }
}))

const replaceAt = (jwt: string, at: number, shift: number): string => {
  const index = alphabet.indexOf(jwt[at]!)
  const other = index === -1 ? alphabet[shift]! : alphabet[(index + shift) % 64]!
  return jwt.slice(0, at) + other + jwt.slice(at + 1)
}

/** The same bytes, with unused bits that no encoder sets (RFC 4648 §3.5). */
const unusedBits: fc.Arbitrary<Edit> = fc.integer({ min: 1, max: 15 }).map((bits) => ({
  kind: "with unused bits set in the signature",
  note: String(bits),
  apply: (jwt) => jwt.slice(0, -1) + alphabet[alphabet.indexOf(jwt.at(-1)!) ^ bits]!
}))

const stranger = fc.oneof(
  fc.constantFrom(...".,;=+/%\"'~\u0000\u007f\u00e9\ud83d\ude00"),
  fc.constantFrom(...alphabet)
)

const insertAt = (jwt: string, at: number, what: string): string => jwt.slice(0, at) + what + jwt.slice(at)

const inserted: fc.Arbitrary<Edit> = fc.tuple(fc.nat(), stranger).map(([place, what]) => ({
  kind: "with one character added",
  note: JSON.stringify({ place, what }),
  apply: (jwt) => insertAt(jwt, place % (jwt.length + 1), what)
}))

const space = fc.constantFrom(" ", "\t", "\r\n", "\u00a0", "\u2028", "\ufeff")

const spaced: fc.Arbitrary<Edit> = fc.tuple(fc.nat(), space).map(([place, what]) => ({
  kind: "with white space inside",
  note: JSON.stringify({ place, what }),
  apply: (jwt) => insertAt(jwt, 1 + place % (jwt.length - 1), what)
}))

/** HTTP removes this white space: a field value has none around it (RFC 9110 §5.5). */
const surrounded: fc.Arbitrary<Edit> = fc.constantFrom([" ", ""], ["", " "], ["\t", ""], ["", "\r\n"]).map((
  [before, after]
) => ({
  kind: "with white space around it",
  note: JSON.stringify([before, after]),
  apply: (jwt) => `${before!}${jwt}${after!}`
}))

/** Other encodings of the signature: padded, or in the other alphabet (RFC 7515 §2). */
const encodings: ReadonlyArray<(signature: string) => string> = [
  (signature) => `${signature}==`,
  (signature) => `${signature.replaceAll("-", "+").replaceAll("_", "/")}==`
]

const encoded: fc.Arbitrary<Edit> = fc.nat(encodings.length - 1).map((index) => ({
  kind: "with another encoding of the signature",
  note: String(index),
  apply: (jwt) => {
    const start = jwt.lastIndexOf(".") + 1
    return jwt.slice(0, start) + encodings[index]!(jwt.slice(start))
  }
}))

const removed: fc.Arbitrary<Edit> = fc.tuple(fc.nat(), fc.integer({ min: 1, max: 20 })).map(([place, count]) => ({
  kind: "with characters removed",
  note: JSON.stringify({ place, count }),
  apply: (jwt) => {
    const at = place % jwt.length
    return jwt.slice(0, at) + jwt.slice(at + count)
  }
}))

const segments: ReadonlyArray<(parts: ReadonlyArray<string>) => ReadonlyArray<string>> = [
  ([header, claims]) => [header!, claims!],
  ([header, claims]) => [header!, claims!, ""],
  ([, claims, signature]) => ["", claims!, signature!],
  ([header, , signature]) => [header!, "", signature!],
  ([header, claims, signature]) => [header!, claims!, signature!, ""],
  ([header, claims, signature]) => ["", header!, claims!, signature!],
  ([header, claims, signature]) => [header!, claims!, signature!, signature!],
  ([header, claims, signature]) => [header!, claims!, signature!, "A", "A"],
  ([header, claims, signature]) => [claims!, header!, signature!],
  ([header, claims, signature]) => [signature!, claims!, header!],
  ([header]) => [header!],
  () => ["", "", ""],
  ([header, claims, signature]) => [header!, claims!, signature!.repeat(2)],
  ([header, claims, signature]) => [header!, claims!, bytesOf(signature!).toString("hex")],
  (
    [header, claims, signature]
  ) => [header!, claims!, Buffer.from(bytesOf(signature!).toReversed()).toString("base64url")],
  ([header, claims, signature]) => [header!, claims!, Buffer.alloc(bytesOf(signature!).length).toString("base64url")],
  ([header, claims, signature]) => [header!, bytesOf(claims!).toString("utf8"), signature!],
  ([header, claims, signature]) => [bytesOf(header!).toString("utf8"), claims!, signature!]
]

const rearranged: fc.Arbitrary<Edit> = fc.nat(segments.length - 1).map((index) => ({
  kind: "with other segments",
  note: String(index),
  apply: (jwt) => segments[index]!(jwt.split(".")).join(".")
}))

/** Other serializations of the same content (RFC 7515 §7.2), and wrappings of it. */
const wrappings: ReadonlyArray<(jwt: string) => string> = [
  (jwt) => {
    const [header, payload, signature] = jwt.split(".")
    return JSON.stringify({ payload, protected: header, signature })
  },
  (jwt) => JSON.stringify(jwt),
  (jwt) => `Bearer ${jwt}`,
  (jwt) => `${jwt},${jwt}`,
  (jwt) => `${jwt}, ${jwt}`,
  (jwt) => `${jwt} ${jwt}`,
  (jwt) => encodeURIComponent(jwt).replaceAll(".", "%2E"),
  (jwt) => Buffer.from(jwt).toString("base64url"),
  (jwt) => jwt.toLowerCase(),
  (jwt) => jwt.toUpperCase(),
  (jwt) => [...jwt].toReversed().join(""),
  (jwt) => jwt.repeat(40)
]

const wrapped: fc.Arbitrary<Edit> = fc.nat(wrappings.length - 1).map((index) => ({
  kind: "with the text wrapped",
  note: String(index),
  apply: (jwt) => wrappings[index]!(jwt)
}))

/** Edits of the text of a JWT, most of which need its signature to be checked. */
export const edits: fc.Arbitrary<Edit> = fc.oneof(
  { weight: 10, arbitrary: replaced },
  { weight: 4, arbitrary: inserted },
  { weight: 3, arbitrary: removed },
  { weight: 2, arbitrary: rearranged },
  { weight: 1, arbitrary: wrapped },
  { weight: 1, arbitrary: spaced },
  { weight: 1, arbitrary: surrounded },
  { weight: 1, arbitrary: encoded },
  { weight: 1, arbitrary: unusedBits }
)
