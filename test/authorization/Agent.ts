/**
 * An agent that obtains access tokens as the standards have it, through `oauth4webapi`: authorization code with PKCE,
 * pushed where the server demands it, and then bound to whom the server binds them.
 */
import { importJWK, type JWK } from "jose"
import { randomBytes } from "node:crypto"
import * as oauth from "oauth4webapi"
import {
  type AgentClient,
  type AuthorizationServer,
  certificateHeader,
  clientSecret,
  redirectUri
} from "./AuthorizationServer.ts"
import { generateKey, type PrivateKey, publicPart } from "./Keys.ts"

const insecure = { [oauth.allowInsecureRequests]: true } as const

/** What a user is asked for. */
export interface Wish {
  /** Who owns the operations: the account at the authorization server. */
  readonly account: string
  readonly scope?: string
  /** For which service (RFC 8707). */
  readonly resource: string
}

/** What the token endpoint answered. */
export interface Tokens {
  readonly access: string
  readonly refresh: string
  /** In lower case, as `oauth4webapi` has it. */
  readonly type: string
  readonly scope: string | undefined
}

export interface Agent {
  readonly client: AgentClient
  /** The key that tokens are bound to, where they are (RFC 9449). */
  readonly key: PrivateKey
  /** The same, for `oauth4webapi`. */
  readonly dpop: oauth.DPoPHandle
  /** Goes through the authorization of a user, who signs in and consents. */
  readonly authorize: (wish: Wish) => Promise<Tokens>
  readonly refresh: (tokens: Tokens) => Promise<Tokens>
  /** Revokes a token (RFC 7009); that of a refresh token takes its grant along. */
  readonly revoke: (token: string) => Promise<void>
  /** A token of the client's own, which no user granted. */
  readonly ownToken: (resource: string) => Promise<string>
}

/** The certificate that agents of mutual TLS show, in DER as base64. Worth nothing anywhere. */
export const certificate =
  "MIIBXDCCAQOgAwIBAgIURMmkziCsdttk/V1wlTYVg4xonVUwCgYIKoZIzj0EAwIwGDEWMBQGA1UEAwwNcHJvdmlkZXIudGVzdDAgFw0yMDAxMDEw"
  + "MDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowGDEWMBQGA1UEAwwNcHJvdmlkZXIudGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABOWsH3RdMGSj"
  + "UblJxrVnxvXHNnTZtRi/PHJt+5fcsolGQfZSDOPAIZeqJyiGKQ8bR2DzX3lTnqcNM3DQChinNV2jKTAnMBQGA1UdEQQNMAuCCWxvY2FsaG9zdDAP"
  + "BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIHvk++oJ6Xdl5HIV8wpDgF6tSgJQR5H927f3+HsG5DZUAiBRhQUoyShm6Vafzo52NIvq"
  + "Sor9ULgfdIx2i/7b+PdlHw=="

/** As a proxy forwards it where it encodes PEM for a URL. */
export const forwardedPem = encodeURIComponent(
  `-----BEGIN CERTIFICATE-----\n${certificate.replaceAll(/.{64}/g, "$&\n")}\n-----END CERTIFICATE-----\n`
)

/** A user's browser, as far as it needs to be one: it keeps cookies, and goes where it is sent. */
const browse = async (start: URL, until: string): Promise<URL> => {
  const cookies = new Map<string, string>()
  let url = start
  for (let hops = 0; !url.href.startsWith(until); hops++) {
    if (hops > 10) throw new Error("the authorization leads nowhere")
    const response = await fetch(url, {
      redirect: "manual",
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") }
    })
    const location = response.headers.get("location")
    if (location === null) throw new Error(`the authorization ended at ${response.status}: ${await response.text()}`)
    await response.body?.cancel()
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
      cookies.set(name!, value!)
    }
    url = new URL(location, url)
  }
  return url
}

/** Sends a request once more where the server hands out the nonce that the proof must carry (RFC 9449 §8). */
const withNonce = async <A>(request: () => Promise<A>): Promise<A> => {
  try {
    return await request()
  } catch (error) {
    if (oauth.isDPoPNonceError(error)) return await request()
    throw error
  }
}

const importES256 = (key: JWK) => importJWK(key, "ES256", { extractable: true }) as Promise<oauth.CryptoKey>

/** Reads the metadata of the server, and becomes one of its clients. */
export const makeAgent = async (server: AuthorizationServer, client_id: string): Promise<Agent> => {
  const issuer = new URL(server.issuer)
  const as = await oauth.processDiscoveryResponse(
    issuer,
    await oauth.discoveryRequest(issuer, { ...insecure, algorithm: "oidc" })
  )
  const client = server.agents.find((agent) => agent.client_id === client_id)!
  const self: oauth.Client = { client_id }
  const key = await generateKey("ES256")
  const dpop = oauth.DPoP(self, { privateKey: await importES256(key), publicKey: await importES256(publicPart(key)) })

  const { kid } = server.clientKey
  const authentication = client.authentication === "client_secret_basic"
    ? oauth.ClientSecretBasic(clientSecret)
    : oauth.PrivateKeyJwt({ key: await importES256(server.clientKey), kid })

  const options = {
    ...insecure,
    ...client.binding === "DPoP" ? { DPoP: dpop } : {},
    ...client.binding === "certificate" ? { headers: { [certificateHeader]: forwardedPem } } : {}
  }

  const toTokens = ({ access_token, refresh_token, scope, token_type }: oauth.TokenEndpointResponse): Tokens => ({
    access: access_token,
    refresh: refresh_token ?? "",
    type: token_type,
    scope
  })

  const push = async (parameters: URLSearchParams) => {
    const { request_uri } = await withNonce(async () =>
      oauth.processPushedAuthorizationResponse(
        as,
        self,
        await oauth.pushedAuthorizationRequest(as, self, authentication, parameters, options)
      )
    )
    return new URLSearchParams({ client_id, request_uri })
  }

  const authorize = async ({ account, resource, scope = "operations:read" }: Wish) => {
    const verifier = oauth.generateRandomCodeVerifier()
    const state = randomBytes(16).toString("base64url")
    const parameters = new URLSearchParams({
      client_id,
      redirect_uri: redirectUri(client_id),
      response_type: "code",
      scope,
      resource,
      state,
      login_hint: account,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256"
    })
    const url = new URL(as.authorization_endpoint!)
    const isPushed = client.authentication === "private_key_jwt"
    url.search = (isPushed ? await push(parameters) : parameters).toString()
    const answer = oauth.validateAuthResponse(as, self, await browse(url, redirectUri(client_id)), state)
    return toTokens(
      await withNonce(async () =>
        oauth.processAuthorizationCodeResponse(
          as,
          self,
          await oauth.authorizationCodeGrantRequest(
            as,
            self,
            authentication,
            answer,
            redirectUri(client_id),
            verifier,
            options
          )
        )
      )
    )
  }

  return {
    client,
    key,
    dpop,
    authorize,
    refresh: async ({ refresh }) =>
      toTokens(
        await withNonce(async () =>
          oauth.processRefreshTokenResponse(
            as,
            self,
            await oauth.refreshTokenGrantRequest(as, self, authentication, refresh, options)
          )
        )
      ),
    revoke: async (token) =>
      oauth.processRevocationResponse(await oauth.revocationRequest(as, self, authentication, token, insecure)),
    ownToken: async (resource) => {
      const response = await withNonce(async () =>
        oauth.processClientCredentialsResponse(
          as,
          self,
          await oauth.clientCredentialsGrantRequest(
            as,
            self,
            authentication,
            { scope: "operations:read", resource },
            options
          )
        )
      )
      return response.access_token
    }
  }
}
