/**
 * Signed messages of a bank: the gateway signs the body of each submission, and the bank that of each answer. A header has the detached
 * signature (JWS). The profile of the bank says which header, which algorithm and which parameters.
 */
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import type * as Redacted from "effect/Redacted"
import * as JsonSignature from "../oauth/JsonSignature.ts"
import * as HttpProvider from "../submission/http/HttpProvider.ts"
import { requireRsaKey, requireText } from "./startChecks.ts"

/** The part of a profile that both sides share. */
interface SignatureProfile {
  /** The header that has the signature, in lower case. */
  readonly header: string
  /** An RSA algorithm, such as `PS256`. */
  readonly algorithm: string
}

/** Milliseconds for which the signature of an answer counts: a bank signs each answer when it gives it. */
export const signatureAge = 300_000

/** The key by which the gateway signs. */
export interface SigningKey {
  /** The private RSA key, in PEM (PKCS #8). */
  readonly key: Redacted.Redacted<string>
  /** The `kid` of the key, by which the bank finds the public key. */
  readonly keyId: string
  /** Who signs, as the bank knows it. */
  readonly issuer: string
  /** `false` signs the body as it is (RFC 7797): then `b64` is in the header, and in `crit`. Default: the body in base64url, without `b64`. */
  readonly b64?: false
}

/** Where the keys of the bank are, by which its signatures count. */
export interface VerifyingKeys {
  /** Who signs, as the signatures name the bank. */
  readonly issuer: string
  /** The URL of its key set (JWKS). */
  readonly keysUrl: string
}

/** Makes the function that signs a body. Dies with a `TypeError` if the key cannot be right. */
export const makeMessageSigner = Effect.fnUntraced(function*(
  { algorithm, header }: SignatureProfile,
  { b64, issuer, key, keyId }: SigningKey,
  parameters: JsonSignature.JsonSignerOptions["parameters"]
) {
  const pem = yield* Effect.sync(() => {
    requireText("signing.keyId", keyId)
    requireText("signing.issuer", issuer)
    return requireRsaKey("signing.key", key, algorithm)
  })
  const sign = yield* JsonSignature.makeJsonSigner({ algorithm, b64, key: pem, keyId, parameters })
  return (body: Uint8Array) => Effect.map(sign(body), (signature) => ({ [header]: signature }))
})

/** Verifies the signatures of a bank. */
export interface MessageVerifier extends JsonSignature.JsonVerifier {
  /** Makes decoders that understand an answer only with a valid signature of the bank. */
  readonly signed: ReturnType<typeof HttpProvider.onlyIf>
}

/** Verifies by the published keys of the bank. Dies with a `TypeError` if a setting cannot be right. */
export const makeMessageVerifier = Effect.fnUntraced(function*(
  { algorithm, header }: SignatureProfile,
  { issuer, keysUrl }: VerifyingKeys,
  parameters: JsonSignature.JsonVerifierOptions["parameters"]
): Effect.fn.Return<MessageVerifier, never, HttpClient.HttpClient> {
  const jwksUri = yield* Effect.sync(() => {
    requireText("bank.issuer", issuer)
    return HttpProvider.requireAddress("bank.keysUrl", keysUrl)
  })
  const verifier = yield* JsonSignature.makeJsonVerifier({ issuer, algorithm, jwksUri, parameters })
  return {
    ...verifier,
    signed: HttpProvider.onlyIf(({ bytes, headers }) =>
      Effect.mapError(
        verifier.detached(headers[header], bytes),
        (error) => error._tag === "InvalidCredential" ? error.reason! : "and the keys of the bank cannot be read"
      )
    )
  }
})
