/**
 * The room `banks`: ready adapters, one bank a file. A bank imports the port as an application does, and no bank imports another. This file has
 * what all of them refuse at the start: each refusal is a `TypeError` of one sentence, and repeats no value.
 */
import * as Redacted from "effect/Redacted"
import { createPrivateKey, X509Certificate } from "node:crypto"
import { isValidAt } from "../node/http/ProviderHttpClient.ts"

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

/** A certificate for mutual TLS that is valid `now` (milliseconds), with its key. Undefined: a module in JavaScript left it out. */
export const requireCertificate = (setting: string, transport: TransportOptions | undefined, now: number): void => {
  if (transport === undefined) throw new TypeError(`${setting} must have the certificate of the gateway and its key`)
  const { cert, key } = transport
  const certificate = parse(() => new X509Certificate(cert), `${setting}.cert must be a certificate in PEM`)
  const privateKey = parse(
    () => createPrivateKey(Redacted.value(key)),
    `${setting}.key must be a private key in PEM, without a passphrase`
  )
  if (!certificate.checkPrivateKey(privateKey)) {
    throw new TypeError(`${setting}.key is not the key of the certificate in ${setting}.cert`)
  }
  if (!isValidAt(certificate, now)) {
    throw new TypeError(
      `${setting}.cert has expired, or is not valid yet: renew it, and check the clock of this machine`
    )
  }
}
