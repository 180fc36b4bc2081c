/** Reads the client certificate that a TLS-terminating proxy forwards in a header. */
import * as WebCrypto from "effect/crypto/WebCrypto"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Result from "effect/Result"

/** Most characters of the header. It contains no chain, and a certificate is rarely longer than 4,000 characters. */
const maxLength = 16_384

/** `Client-Cert` of RFC 9440 §2.2: a byte sequence (RFC 8941 §3.3.5) without parameters, of one certificate. */
const byteSequence = /^:([A-Za-z0-9+/]+={0,2}):$/

/** The decoded value of nginx's `$ssl_client_escaped_cert`. */
const pem = /^-----BEGIN CERTIFICATE-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END CERTIFICATE-----(?:\r?\n)?$/

const decodePem = (value: string): string | undefined => {
  try {
    return pem.exec(decodeURIComponent(value))?.[1]?.replace(/[\r\n]/g, "")
  } catch {
    return undefined
  }
}

/** Whether the bytes are exactly one ASN.1 sequence, as a DER certificate is. Refuses partial and several certificates. */
const isSequence = (der: Uint8Array): boolean => {
  const [tag, first = 0] = der
  if (tag !== 0x30) return false
  if (first < 0x80) return der.length === 2 + first
  const octets = first & 0x7f
  const length = der.subarray(2, 2 + octets).reduce((sum, octet) => sum * 256 + octet, 0)
  return octets >= 1 && octets <= 3 && der.length === 2 + octets + length
}

/** The certificate in DER; null if the value is malformed. */
const decodeCertificate = (value: string): Uint8Array<ArrayBuffer> | null => {
  if (value.length > maxLength) return null
  const base64 = byteSequence.exec(value)?.[1] ?? decodePem(value)
  if (base64 === undefined) return null
  const decoded = Result.getOrUndefined(Base64.decode(base64))
  return decoded !== undefined && isSequence(decoded) ? new Uint8Array(decoded) : null
}

/**
 * Computes the SHA-256 thumbprint (RFC 8705 §3.1) of the certificate in a header: `Client-Cert` of RFC 9440, or URL-encoded
 * PEM, as nginx forwards it. Null if the value is malformed, too long, or has several certificates. The request then counts
 * as one without a certificate, and the gateway refuses every certificate-bound token.
 *
 * Use it only for headers of a trusted proxy that removes the header from its clients' requests.
 */
export const readForwardedCertificate = (value: string): Effect.Effect<string | null> =>
  Effect.suspend(() => {
    const certificate = decodeCertificate(value)
    if (certificate === null) return Effect.succeed(null)
    return Effect.flatMap(WebCrypto.WebCrypto, ({ subtle }) =>
      Effect.promise(async () =>
        Base64Url.encode(new Uint8Array(await subtle.digest("SHA-256", certificate)))
      ))
  })
