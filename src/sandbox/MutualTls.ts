/** Mutual TLS of the sandbox's service: it asks each client for a certificate, as a bank of the Open Banking standard does. */
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { createPrivateKey, X509Certificate } from "node:crypto"
import { createServer, type Server, type ServerOptions } from "node:https"

/** A problem of the files. Undefined: there is none. No value is repeated. */
const problemOf = (
  { cert, clientCa, key }: { readonly cert: string; readonly key: Redacted.Redacted<string>; readonly clientCa: string }
): string | undefined => {
  const parse = <A>(parsed: () => A): A | null => {
    try {
      return parsed()
    } catch {
      return null
    }
  }
  const certificate = parse(() => new X509Certificate(cert))
  const privateKey = parse(() => createPrivateKey(Redacted.value(key)))
  if (certificate === null) return "cert must be a certificate in PEM"
  if (privateKey === null) return "key must be a private key in PEM, without a passphrase"
  if (!certificate.checkPrivateKey(privateKey)) return "key is not the key of the certificate in cert"
  return parse(() => new X509Certificate(clientCa)) === null ? "clientCa must be a certificate in PEM" : undefined
}

/** The certificate of the service with its key, and the authority of its clients' certificates. PEM. */
export const MutualTls = Schema.Struct({
  cert: Schema.String,
  key: Schema.Redacted(Schema.String),
  clientCa: Schema.String
}).check(Schema.makeFilter(problemOf))
export type MutualTls = typeof MutualTls.Type

/** A server of HTTP over TLS. Connections without a certificate of the authority end before a request. */
export const createTlsServer = (
  { cert, clientCa, key }: MutualTls,
  options: ServerOptions,
  handle: Parameters<typeof createServer>[1]
): Server => createServer({ ...options, cert, key: Redacted.value(key), ca: clientCa, requestCert: true }, handle)
