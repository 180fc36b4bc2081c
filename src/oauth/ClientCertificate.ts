/**
 * The certificate of a client, as the proxy that ended its TLS connection forwards it.
 */
import * as WebCrypto from "effect/crypto/WebCrypto"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Result from "effect/Result"

/** Characters of the header. Chains are not forwarded here, and a certificate is rarely longer than 4,000. */
const longest = 16_384

/** A byte sequence (RFC 8941 §3.3.5), as RFC 9440 §2.2 has it: no parameters, and one certificate. */
const byteSequence = /^:([A-Za-z0-9+/]+={0,2}):$/

/** What nginx makes of it (`$ssl_client_escaped_cert`), once decoded. */
const pem = /^-----BEGIN CERTIFICATE-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END CERTIFICATE-----(?:\r?\n)?$/

const decodePem = (value: string): string | undefined => {
  try {
    return pem.exec(decodeURIComponent(value))?.[1]?.replace(/[\r\n]/g, "")
  } catch {
    return undefined
  }
}

/** The whole is one ASN.1 sequence, as a certificate in DER is: so a part of one, or two, are none. */
const isSequence = (der: Uint8Array): boolean => {
  const [tag, first = 0] = der
  if (tag !== 0x30) return false
  if (first < 0x80) return der.length === 2 + first
  const octets = first & 0x7f
  const length = der.subarray(2, 2 + octets).reduce((sum, octet) => sum * 256 + octet, 0)
  return octets >= 1 && octets <= 3 && der.length === 2 + octets + length
}

/** The certificate in DER; null where the value is malformed. */
const decodeCertificate = (value: string): Uint8Array<ArrayBuffer> | null => {
  if (value.length > longest) return null
  const base64 = byteSequence.exec(value)?.[1] ?? decodePem(value)
  if (base64 === undefined) return null
  const decoded = Result.getOrUndefined(Base64.decode(base64))
  return decoded !== undefined && isSequence(decoded) ? new Uint8Array(decoded) : null
}

/**
 * The SHA-256 thumbprint (RFC 8705 §3.1) of the certificate in a header: `Client-Cert` of RFC 9440, or PEM in
 * URL-encoding, as nginx forwards it. Null where the value is malformed, too long, or holds more than one: it is then as
 * if no certificate had come, and no token that is bound to one is good.
 *
 * Only for headers of a proxy that is trusted, and that removes what its clients send under that name.
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
