/**
 * Detached signatures of the Open Banking standard (Read/Write API Profile 4.0, "Message Signing"): the gateway signs the body of a
 * payment, and the bank signs the body of each answer. The header `x-jws-signature` has the JWS without its payload.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Base64Url from "effect/encoding/Base64Url"
import type * as HttpClient from "effect/http/HttpClient"
import * as Redacted from "effect/Redacted"
import { FlattenedSign, flattenedVerify, importPKCS8, type JWSHeaderParameters } from "jose"
import { createPrivateKey } from "node:crypto"
import { type AuthorizationUnavailable, InvalidCredential } from "../domain/Credential.ts"
import { makeKeySet } from "../oauth/KeySet.ts"
import * as HttpProvider from "../submission/http/HttpProvider.ts"

/** The header of requests and of answers. */
const signatureHeader = "x-jws-signature"

/** The only algorithm of the standard. */
const algorithm = "PS256"

const iat = "http://openbanking.org.uk/iat"
const iss = "http://openbanking.org.uk/iss"
const tan = "http://openbanking.org.uk/tan"

/** The claims that a verifier must understand. jose knows `b64` itself. */
const crit = { [iat]: true, [iss]: true, [tan]: true }

/** Milliseconds by which the clock of the bank may be ahead: a signature from the future is refused. */
export const clockDifference = 60_000

/** How the gateway signs. */
export interface SigningOptions {
  /** The private RSA key, in PEM (PKCS #8). */
  readonly key: Redacted.Redacted<string>
  /** The `kid` of the key at the trust anchor. */
  readonly keyId: string
  /** Who signs. At the Open Banking Directory: the ids of organisation and software statement, `ORG/SOFTWARE`. */
  readonly issuer: string
  /** The domain of the trust anchor that has the public key. Default: `openbanking.org.uk`. */
  readonly trustAnchor?: string
  /**
   * `false` signs the body as it is (RFC 7797), as versions up to 3.1.3 asked. Then `b64` is in the header, and in `crit`. Default: the
   * form of version 4.0, which signs the body in base64url and has no `b64`.
   */
  readonly b64?: false
}

/** Whose signatures prove something. */
export interface BankKeys {
  /** The `iss` of the bank. At the Open Banking Directory: the id of its organisation. */
  readonly issuer: string
  /** The domains of trusted anchors. Default: `openbanking.org.uk` alone. */
  readonly trustAnchors?: ReadonlyArray<string>
  /** The URL of its key set (JWKS) at the trust anchor. */
  readonly keysUrl: string
}

const directory = "openbanking.org.uk"

export const requireText = (setting: string, value: string): void => {
  if (!/^[\x20-\x7e]+$/u.test(value)) throw new TypeError(`${setting} must be set, to visible ASCII characters`)
}

/** Refuses what cannot sign with PS256, in one sentence that repeats nothing of the key. */
const requireSigningKey = (pem: string): void => {
  const key = (() => {
    try {
      return createPrivateKey(pem)
    } catch {
      throw new TypeError("signing.key must be a private key in PEM, without a passphrase")
    }
  })()
  const bits = key.asymmetricKeyDetails?.modulusLength ?? 0
  if (key.asymmetricKeyType !== "rsa" || bits < 2048) {
    throw new TypeError(
      `signing.key must be an RSA key of 2048 bits or more, because the standard signs with ${algorithm}`
    )
  }
}

/** Makes the function that signs a body. Dies with a `TypeError` if the options cannot be right. */
export const makeSigner = Effect.fnUntraced(function*({ b64, issuer, key, keyId, trustAnchor }: SigningOptions) {
  yield* Effect.sync(() => {
    requireText("signing.keyId", keyId)
    requireText("signing.issuer", issuer)
    requireSigningKey(Redacted.value(key))
  })
  const pem = createPrivateKey(Redacted.value(key)).export({ type: "pkcs8", format: "pem" }) as string
  const imported = yield* Effect.promise(() => importPKCS8(pem, algorithm))
  const claims = { [iss]: issuer, [tan]: trustAnchor ?? directory }
  return (body: Uint8Array) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.promise(async () => {
        const header = {
          alg: algorithm,
          kid: keyId,
          ...b64 === false ? { b64 } : {},
          [iat]: Math.floor(now / 1000),
          ...claims,
          crit: [...b64 === false ? ["b64"] : [], iat, iss, tan]
        }
        const jws = await new FlattenedSign(body).setProtectedHeader(header).sign(imported, { crit })
        return { [signatureHeader]: `${jws.protected}..${jws.signature}` }
      }))
})

/** Whether the claims are those of this bank. `now` in milliseconds. */
const isFrom = (
  { issuer, trustAnchors = [directory] }: BankKeys,
  header: JWSHeaderParameters,
  types: ReadonlyArray<string>,
  now: number
): boolean => {
  const at = header[iat]
  return header[iss] === issuer
    && trustAnchors.includes(header[tan] as string)
    && typeof at === "number" && at * 1000 <= now + clockDifference
    && (header.typ === undefined || types.includes(header.typ))
    && (header.cty === undefined || header.cty === "json" || header.cty === "application/json")
}

const headerOf = (encoded: string): JWSHeaderParameters | null => {
  try {
    return JSON.parse(Buffer.from(encoded, "base64url").toString("utf8")) as JWSHeaderParameters
  } catch {
    return null
  }
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

interface Verifier {
  /** Fails while there are no keys of the bank: nothing that it signs could prove anything. */
  readonly ready: Effect.Effect<void, AuthorizationUnavailable>
  /** Fails with the reason if the signature is not one of this bank. */
  readonly verify: (signature: Signature) => Effect.Effect<void, InvalidCredential | AuthorizationUnavailable>
}

/** Verifies signatures of the bank by its published keys. Dies with a `TypeError` if the options cannot be right. */
export const makeVerifier = Effect.fnUntraced(function*(bank: BankKeys): Effect.fn.Return<
  Verifier,
  never,
  HttpClient.HttpClient
> {
  const jwksUri = yield* Effect.sync(() => {
    requireText("bank.issuer", bank.issuer)
    return HttpProvider.requireAddress("bank.keysUrl", bank.keysUrl)
  })
  const keys = yield* makeKeySet({ issuer: bank.issuer, algorithms: [algorithm], jwksUri })
  const refuse = (reason: string) => new InvalidCredential({ reason })

  return {
    ready: keys.ready,
    verify: Effect.fnUntraced(function*({ payload, types, ...signature }) {
      const header = headerOf(signature.protected)
      if (header?.alg !== algorithm || typeof header.kid !== "string") {
        return yield* refuse("with a signature of another form")
      }
      if (!isFrom(bank, header, types, yield* Clock.currentTimeMillis)) {
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
  }
})

/**
 * Makes decoders that understand an answer only with a valid signature of the bank. Without one it is as if the bank had said nothing: it
 * proves neither a payment nor a refusal.
 */
export const signedBy =
  ({ verify }: Verifier) => <A, E>(decode: HttpProvider.Decode<A, E>): HttpProvider.Decode<A, E> => (answer) => {
    const { bytes, headers, status } = answer
    const refuse = (what: string) =>
      Effect.fail(new HttpProvider.NotUnderstood({ reason: `status ${status}, ${what}` }))
    const [encoded = "", payload, signature, ...more] = (headers[signatureHeader] ?? "").split(".")
    if (payload !== "" || signature === undefined || more.length > 0) {
      return refuse("without a detached signature of the bank")
    }
    return verify({
      protected: encoded,
      signature,
      payload: (isPlain) => isPlain ? bytes : Base64Url.encode(bytes),
      types: ["JOSE"]
    }).pipe(
      Effect.catchTags({
        InvalidCredential: ({ reason }) => refuse(reason!),
        AuthorizationUnavailable: () => refuse("and the keys of the bank cannot be read")
      }),
      Effect.flatMap(() => decode(answer))
    )
  }
