/**
 * Signatures over the body of a message (JWS, RFC 7515), for providers that sign their messages and want signed ones: detached (appendix F),
 * also over the body as it is (RFC 7797), and compact. Each profile names its own header parameters; all of them are critical.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Base64Url from "effect/encoding/Base64Url"
import { FlattenedSign, flattenedVerify, importPKCS8, type JWSHeaderParameters } from "jose"
import { type AuthorizationUnavailable, InvalidCredential } from "../domain/Credential.ts"
import { makeKeySet } from "./KeySet.ts"

/** Milliseconds by which the clock of the other side may be ahead: a signature from the future is refused. */
export const clockDifference = 60_000

/**
 * Makes a check of a time in seconds since 1970: it is not in the future, and not older than `maxAge` milliseconds. So a message that was
 * kept, such as by a cache, does not count as a new one. `now` in milliseconds.
 */
export const isRecent = (maxAge: number) => (value: unknown, now: number): boolean => {
  const age = typeof value === "number" ? now - value * 1000 : NaN
  return age >= -clockDifference && age <= maxAge
}

/** How messages are signed. */
export interface JsonSignerOptions {
  /** Such as `PS256`. */
  readonly algorithm: string
  /** The private key, in PEM (PKCS #8). */
  readonly key: string
  readonly keyId: string
  /** The header parameters of the profile. `now` in seconds since 1970. */
  readonly parameters: (now: number) => Readonly<Record<string, string | number>>
  /**
   * `false` signs the body as it is (RFC 7797): `b64` is in the header, and in `crit`. Default: the body in base64url, without `b64`.
   */
  readonly b64?: false | undefined
}

/** Makes the function that signs a body, detached: header and signature in base64url, with two points between them. */
export const makeJsonSigner = Effect.fnUntraced(function*(
  { algorithm, b64, key, keyId, parameters }: JsonSignerOptions
) {
  const imported = yield* Effect.promise(() => importPKCS8(key, algorithm))
  const plain = b64 === false ? { b64 } : {}
  return (body: Uint8Array): Effect.Effect<string> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.promise(async () => {
        const own = parameters(Math.floor(now / 1000))
        const names = Object.keys(own)
        const header = { alg: algorithm, kid: keyId, ...plain, ...own, crit: [...Object.keys(plain), ...names] }
        const crit = Object.fromEntries(names.map((name) => [name, true]))
        const jws = await new FlattenedSign(body).setProtectedHeader(header).sign(imported, { crit })
        return `${jws.protected}..${jws.signature}`
      }))
})

/** Whose signatures prove something. */
export interface JsonVerifierOptions {
  /** Names the signer in logs. */
  readonly issuer: string
  readonly algorithm: string
  /** The URL of the signer's key set (JWKS, RFC 7517 §5). */
  readonly jwksUri: string
  /** The header parameters that a signature must have, and their values. `now` in milliseconds. jose knows `b64` itself. */
  readonly parameters: Readonly<Record<string, (value: unknown, now: number) => boolean>>
}

/** A signature with its header in base64url, and what it signs. */
interface Signature {
  readonly protected: string
  readonly signature: string
  /** `isPlain`: the header has `b64: false`, and the bytes themselves are signed. */
  readonly payload: (isPlain: boolean) => string | Uint8Array
  /** What the header may have as `typ`. */
  readonly types: ReadonlyArray<string>
}

const headerOf = (encoded: string): JWSHeaderParameters | null => {
  try {
    return JSON.parse(Buffer.from(encoded, "base64url").toString("utf8")) as JWSHeaderParameters
  } catch {
    return null
  }
}

const isJson = ({ cty, typ }: JWSHeaderParameters, types: ReadonlyArray<string>): boolean =>
  (typ === undefined || types.includes(typ)) && (cty === undefined || cty === "json" || cty === "application/json")

const refuse = (reason: string) => new InvalidCredential({ reason })

/** Makes a verifier of signatures by the published keys of the signer. Keys are fetched as those of an authorization server: see `KeySet`. */
export const makeJsonVerifier = Effect.fnUntraced(function*(
  { algorithm, issuer, jwksUri, parameters }: JsonVerifierOptions
) {
  const keys = yield* makeKeySet({ issuer, algorithms: [algorithm], jwksUri })
  const expected = Object.entries(parameters)
  const crit = Object.fromEntries(expected.map(([name]) => [name, true]))

  const verify = Effect.fnUntraced(function*({ payload, types, ...signature }: Signature) {
    const header = headerOf(signature.protected)
    if (header?.alg !== algorithm || typeof header.kid !== "string") {
      return yield* refuse("with a signature of another form")
    }
    const now = yield* Clock.currentTimeMillis
    if (!isJson(header, types) || !expected.every(([name, isRight]) => isRight(header[name], now))) {
      return yield* refuse("with a signature of another party")
    }
    const candidates = yield* Effect.catchTag(
      keys.find({ algorithm, kid: header.kid }),
      "InvalidCredential",
      () => Effect.fail(refuse("with a signature by an unknown key"))
    )
    const jws = { ...signature, payload: payload(header["b64"] === false) }
    const verifiedBy = candidates.map((key) =>
      Effect.tryPromise(() => flattenedVerify(jws, key, { algorithms: [algorithm], crit }))
    )
    return yield* Effect.asVoid(Effect.firstSuccessOf(verifiedBy)).pipe(
      Effect.mapError(() => refuse("with a wrong signature"))
    )
  })

  return {
    /** Fails while there are no keys of the signer: nothing that it signs could prove anything. */
    ready: keys.ready,
    /** Verifies a detached signature of a body. Fails with the reason, which quotes nothing, if it is not one of the signer. */
    detached: (text = "", body: Uint8Array): Effect.Effect<void, InvalidCredential | AuthorizationUnavailable> => {
      const [encoded = "", payload, signature, ...more] = text.split(".")
      if (payload !== "" || signature === undefined || more.length > 0) {
        return Effect.fail(refuse("without a detached signature"))
      }
      return verify({
        protected: encoded,
        signature,
        payload: (isPlain) => isPlain ? body : Base64Url.encode(body),
        types: ["JOSE"]
      })
    },
    /** Verifies a compact JWS of one of these types, and yields its payload as text. */
    compact: (
      text: string,
      types: ReadonlyArray<string>
    ): Effect.Effect<string, InvalidCredential | AuthorizationUnavailable> => {
      if (!isCompactJwt(text)) return Effect.fail(refuse("without a signature"))
      const [encoded, payload, signature] = text.split(".") as [string, string, string]
      return Effect.as(
        verify({ protected: encoded, signature, payload: () => payload, types }),
        Buffer.from(payload, "base64url").toString("utf8")
      )
    }
  }
})

export type JsonVerifier = Effect.Success<ReturnType<typeof makeJsonVerifier>>

/** Most characters of a token or DPoP proof. Longer ones are refused undecoded. */
export const maxJwtLength = 8192

/**
 * Canonical base64url without padding: the unused bits of the last character are zero (RFC 4648 §3.5). Otherwise one token
 * would have several spellings with different digests.
 */
const segment = String.raw`(?=[\w-])(?:[\w-]{4})*(?:[\w-][AQgw]|[\w-]{2}[AEIMQUYcgkosw048])?`

const compact = new RegExp(`^${segment}\\.${segment}\\.${segment}$`)

/** Whether the text has the form of a JWT (RFC 7515 §3.1): three nonempty parts, and at most `maxJwtLength` characters. */
export const isCompactJwt = (text: string): boolean => text.length <= maxJwtLength && compact.test(text)
