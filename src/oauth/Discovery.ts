/**
 * What an authorization server says of itself (RFC 8414).
 */
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type { JsonObject } from "../http/JsonBody.ts"
import { exchangeJson, ServerFailure } from "../http/JsonExchange.ts"
import { validateEndpoint } from "./Issuer.ts"

/** Of its metadata, what a resource server needs. */
export interface ServerMetadata {
  readonly issuer: string
  readonly jwks_uri: string | null
  readonly introspection_endpoint: string | null
}

/** For metadata and key sets. */
export const documentLimits = { timeout: "3 seconds", size: 1024 * 1024 } as const

/** Where the metadata is: the well-known part comes between host and path (RFC 8414 §3). */
const metadataUrl = (issuer: string): string => {
  const { origin, pathname } = new URL(issuer)
  return `${origin}/.well-known/oauth-authorization-server${pathname.replace(/\/$/, "")}`
}

/** Where OpenID providers have it: the well-known part comes last (OpenID Connect Discovery §4). */
const openIdMetadataUrl = (issuer: string): string => `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`

const readUrl = (issuer: string, document: JsonObject, name: string): Effect.Effect<string | null, ServerFailure> => {
  const url = document[name]
  if (url === undefined) return Effect.succeed(null)
  const fault = typeof url === "string" ? validateEndpoint(issuer, url) : "is not a URL"
  return fault === null
    ? Effect.succeed(url as string)
    : Effect.fail(new ServerFailure({ reason: `the ${name} of its metadata ${fault}`, status: 200 }))
}

/**
 * Reads the metadata of an issuer that was found without fault. Fails unless it names that issuer exactly (RFC 8414
 * §3.3): it could speak for another one.
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
