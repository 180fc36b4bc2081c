/**
 * Reads the metadata of an authorization server (RFC 8414).
 */
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import { exchangeJson, type JsonObject, ServerFailure } from "../http/JsonExchange.ts"
import { validateEndpoint } from "./Issuer.ts"

/** The members of the metadata that a resource server needs. */
interface ServerMetadata {
  readonly issuer: string
  readonly jwks_uri: string | null
  readonly introspection_endpoint: string | null
}

/** Limits of a fetch of metadata or of a key set. */
export const documentLimits = { timeout: "3 seconds", size: 1024 * 1024 } as const

/** URL of the metadata: the well-known part stands between host and path (RFC 8414 §3). */
const metadataUrl = (issuer: string): string => {
  const { origin, pathname } = new URL(issuer)
  return `${origin}/.well-known/oauth-authorization-server${pathname.replace(/\/$/, "")}`
}

/** URL of the metadata of an OpenID provider: the well-known part comes last (OpenID Connect Discovery §4). */
const openIdMetadataUrl = (issuer: string): string => `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`

const readUrl = (issuer: string, document: JsonObject, name: string): Effect.Effect<string | null, ServerFailure> => {
  const url = document[name]
  if (url === undefined) return Effect.succeed(null)
  const invalid = typeof url === "string" ? validateEndpoint(issuer, url) : "is not a URL"
  return invalid === null
    ? Effect.succeed(url as string)
    : Effect.fail(new ServerFailure({ reason: `the ${name} of its metadata ${invalid}`, status: 200 }))
}

/**
 * Fetches the metadata of an issuer whose URL is valid. Falls back to the URL of OpenID providers on 404. Fails unless the
 * metadata names that issuer exactly (RFC 8414 §3.3), because it could be that of another one.
 */
export const discover = Effect.fnUntraced(function*(issuer: string) {
  const client = yield* HttpClient.HttpClient
  const get = (url: string) => exchangeJson(client, HttpClientRequest.get(url), documentLimits)
  const document = yield* Effect.catchIf(
    get(metadataUrl(issuer)),
    ({ status }) => status === 404,
    () => get(openIdMetadataUrl(issuer))
  )
  if (document["issuer"] !== issuer) {
    return yield* new ServerFailure({ reason: "its metadata is that of another issuer", status: 200 })
  }
  const metadata: ServerMetadata = {
    issuer,
    jwks_uri: yield* readUrl(issuer, document, "jwks_uri"),
    introspection_endpoint: yield* readUrl(issuer, document, "introspection_endpoint")
  }
  return metadata
})
