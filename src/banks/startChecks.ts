/**
 * The room `banks`: ready adapters, at most 300 lines a bank. A bank imports the port as an application does, and no bank imports another. This
 * file has what banks refuse at the start, beyond `HttpProvider`: each refusal is a `TypeError` of one sentence, and repeats no value.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { createPrivateKey, X509Certificate } from "node:crypto"
import * as ProviderHttpClient from "../node/http/ProviderHttpClient.ts"
import { makeClientToken } from "../oauth/ClientAuthentication.ts"
import * as HttpProvider from "../submission/http/HttpProvider.ts"
import type { ProviderAdapter } from "../submission/providers/ProviderAdapter.ts"

/** Text for a header or a claim. */
export const requireText = (setting: string, value: string): void => {
  if (!/^[\x20-\x7e]+$/u.test(value)) throw new TypeError(`${setting} must be set, to visible ASCII characters`)
}

/** The gateway as a client of the bank: where it gets its own tokens. */
export interface BankClient {
  readonly tokenUrl: string
  readonly clientId: string
}

/** Makes the function that finds the gateway's own token: see `ClientAuthentication`. Dies with a `TypeError` if a setting cannot be right. */
export const makeBankToken = Effect.fnUntraced(function*({ clientId, tokenUrl }: BankClient, scope: string) {
  const url = yield* Effect.sync(() => {
    HttpProvider.requireSecret("client.clientId", Redacted.make(clientId))
    return HttpProvider.requireAddress("client.tokenUrl", tokenUrl)
  })
  return yield* makeClientToken({ tokenUrl: url, clientId, scope })
})

/** The certificate of the gateway at the bank, and its key. PEM. */
export interface TransportOptions {
  readonly cert: string
  readonly key: Redacted.Redacted<string>
  /** Replaces the certificate authorities of Node. */
  readonly ca?: string | ReadonlyArray<string>
}

const parse = <A>(parsed: () => A, sentence: string): A => {
  try {
    return parsed()
  } catch {
    throw new TypeError(sentence)
  }
}

const requirePrivateKey = (setting: string, key: Redacted.Redacted<string>) =>
  parse(() => createPrivateKey(Redacted.value(key)), `${setting} must be a private key in PEM, without a passphrase`)

/** A key that signs with this RSA algorithm, such as PS256 (RFC 7518 §3.5). Yields its PEM (PKCS #8). */
export const requireRsaKey = (setting: string, key: Redacted.Redacted<string>, algorithm: string): string => {
  const privateKey = requirePrivateKey(setting, key)
  const bits = privateKey.asymmetricKeyDetails?.modulusLength ?? 0
  if (privateKey.asymmetricKeyType !== "rsa" || bits < 2048) {
    throw new TypeError(`${setting} must be an RSA key of 2048 bits or more, because the bank asks for ${algorithm}`)
  }
  return privateKey.export({ type: "pkcs8", format: "pem" }) as string
}

/** A certificate for mutual TLS that is valid `now` (milliseconds), with its key. Undefined: a module in JavaScript left it out. */
const requireCertificate = (setting: string, transport: TransportOptions | undefined, now: number): void => {
  if (transport === undefined) throw new TypeError(`${setting} must have the certificate of the gateway and its key`)
  const { cert, key } = transport
  const certificate = parse(() => new X509Certificate(cert), `${setting}.cert must be a certificate in PEM`)
  const privateKey = requirePrivateKey(`${setting}.key`, key)
  if (!certificate.checkPrivateKey(privateKey)) {
    throw new TypeError(`${setting}.key is not the key of the certificate in ${setting}.cert`)
  }
  if (!ProviderHttpClient.isValidAt(certificate, now)) {
    throw new TypeError(
      `${setting}.cert has expired, or is not valid yet: renew it, and check the clock of this machine`
    )
  }
}

/** The adapter with a client of its own, which authenticates by mutual TLS. Dies with a `TypeError` if the certificate cannot be right. */
export const layerWithCertificate = <E>(
  tls: TransportOptions,
  adapter: Layer.Layer<ProviderAdapter, E, HttpClient.HttpClient>
): Layer.Layer<ProviderAdapter, E> =>
  Layer.unwrap(Effect.map(Clock.currentTimeMillis, (now) => {
    requireCertificate("tls", tls, now)
    return Layer.provide(adapter, ProviderHttpClient.layer({ tls }))
  }))
