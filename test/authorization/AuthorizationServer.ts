/**
 * A real authorization server on loopback: `oidc-provider`, with a user who consents to everything.
 */
import { Effect, type Scope } from "effect"
import { createHash } from "node:crypto"
import * as http from "node:http"
import type { AddressInfo } from "node:net"
import { type Client, type Context, Provider, type Token } from "oidc-provider"
import { makeAuthorizationServerStore } from "./AuthorizationServerStore.ts"
import { type GrantEvents, makeGrantEvents } from "./GrantEvents.ts"
import { type Algorithm, generateKey, generateKeys, type PrivateKey, publicPart } from "./Keys.ts"

/** An agent, as the authorization server knows it. */
export interface AgentClient {
  readonly client_id: string
  readonly tokens: Algorithm | "opaque"
  readonly authentication: "client_secret_basic" | "private_key_jwt"
  readonly binding: "none" | "DPoP" | "certificate"
}

/** The provider to which every grant of the tests is connected, by the claim `provider`. */
export const provider = "test-bank"

/** The secret of every client that authenticates with one: it has characters that forms encode (RFC 6749 §2.3.1). */
export const clientSecret = "not very secret: 50% of it + this & that = all of it, really"

/** The header in which the proxy before the authorization server would forward a client's certificate. */
export const certificateHeader = "x-test-certificate"

export interface AuthorizationServerOptions {
  readonly agents: ReadonlyArray<AgentClient>
  /** The services that clients may ask tokens for (RFC 8707). */
  readonly resources: ReadonlyArray<string>
  /** Whether proofs at the token endpoint need a nonce (RFC 9449 §8). */
  readonly dpopNonces?: boolean
  /** How long access tokens live, in seconds: ten minutes unless told. */
  readonly tokenLifetime?: number
}

export interface AuthorizationServer extends Omit<GrantEvents, "tell"> {
  readonly issuer: string
  readonly agents: ReadonlyArray<AgentClient>
  /** The key with which clients authenticate where they do so with a key; also that of `gateway-keyed`. */
  readonly clientKey: PrivateKey
  /** The private keys with which tokens are signed now, the newest first. */
  readonly keys: () => ReadonlyArray<PrivateKey>
  /** Targets of all requests so far, in their order. */
  readonly requests: () => ReadonlyArray<string>
  /** Signs with new keys from now on. The old ones stay published until they are retired. */
  readonly rotateKeys: Effect.Effect<void>
  readonly retireKeys: Effect.Effect<void>
  /** Closes the port, and with it every connection. */
  readonly close: Effect.Effect<void>
  readonly reopen: Effect.Effect<void>
  /** From now on requests are answered as they should be, with 500, or never. */
  readonly behave: (how: "well" | "badly" | "never") => void
  /** From now on introspection says of refresh tokens all that it says of access tokens, and this. */
  readonly describeRefreshTokens: (members: object) => void
}

const scopes = "operations:read operations:write"

/** What OpenID Connect Core §8.1 has as an example: no two clients see the same subject. */
export const pairwiseSubject = (account: string, client_id: string): string =>
  createHash("sha256").update(`${client_id}\0${account}\0salt`).digest("base64url")

const toMetadata = (agent: AgentClient, clientKey: PrivateKey) => ({
  client_id: agent.client_id,
  grant_types: ["authorization_code", "refresh_token", "client_credentials"],
  response_types: ["code"],
  redirect_uris: [redirectUri(agent.client_id)],
  subject_type: "pairwise",
  token_endpoint_auth_method: agent.authentication,
  ...agent.authentication === "private_key_jwt"
    // As FAPI 2.0 has it.
    ? { jwks: { keys: [publicPart(clientKey)] }, require_pushed_authorization_requests: true }
    : { client_secret: clientSecret },
  dpop_bound_access_tokens: agent.binding === "DPoP",
  tls_client_certificate_bound_access_tokens: agent.binding === "certificate"
})

const introspectionPath = "/token/introspection"

export const redirectUri = (client_id: string) => `https://${client_id}.test/callback`

/** The gateway's own registrations: they may introspect, and nothing else. */
const gatewayClients = (clientKey: PrivateKey) => {
  const common = { grant_types: [], response_types: [], redirect_uris: [] }
  return [
    {
      ...common,
      client_id: "gateway-basic",
      token_endpoint_auth_method: "client_secret_basic",
      client_secret: clientSecret
    },
    {
      ...common,
      client_id: "gateway-keyed",
      token_endpoint_auth_method: "private_key_jwt",
      jwks: { keys: [publicPart(clientKey)] }
    }
  ]
}

type Settings = Required<AuthorizationServerOptions>

const isGateway = ({ clientId }: Client) => clientId.startsWith("gateway-")

const features = ({ agents, dpopNonces, resources, tokenLifetime }: Settings) => ({
  devInteractions: { enabled: false },
  clientCredentials: { enabled: true },
  dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 7), requireNonce: () => dpopNonces },
  fapi: {
    enabled: true,
    profile: (_context: Context, client?: Client) =>
      agents.find(({ client_id }) => client_id === client?.clientId)?.authentication === "private_key_jwt"
        ? "2.0"
        : undefined
  },
  introspection: { enabled: true, allowedPolicy: (_context: Context, client: Client) => isGateway(client) },
  mTLS: {
    enabled: true,
    certificateBoundAccessTokens: true,
    getCertificate: (context: Context) => {
      const value = context.get(certificateHeader)
      return value === "" ? undefined : decodeURIComponent(value)
    }
  },
  resourceIndicators: {
    enabled: true,
    getResourceServerInfo: (_context: Context, resource: string, client: Client) => {
      const format = agents.find(({ client_id }) => client_id === client.clientId)?.tokens ?? "opaque"
      if (!resources.includes(resource)) throw new Error(`no such resource: ${resource}`)
      return {
        scope: scopes,
        audience: resource,
        accessTokenTTL: tokenLifetime,
        ...format === "opaque"
          ? { accessTokenFormat: "opaque" }
          : { accessTokenFormat: "jwt", jwt: { sign: { alg: format } } }
      }
    }
  },
  revocation: {
    enabled: true,
    allowedPolicy: (_context: Context, client: Client, { clientId }: Token) => client.clientId === clientId
  },
  rpInitiatedLogout: { enabled: false },
  userinfo: { enabled: false }
})

const lifetimes = Object.fromEntries(
  ["Grant", "IdToken", "Interaction", "RefreshToken", "Session"].map((name) => [name, 3600])
)

const configure = (options: Settings, clientKey: PrivateKey) => ({
  adapter: makeAuthorizationServerStore(),
  clients: [...options.agents.map((agent) => toMetadata(agent, clientKey)), ...gatewayClients(clientKey)],
  clientDefaults: { id_token_signed_response_alg: "ES256" },
  enabledJWA: { dPoPSigningAlgValues: ["ES256", "Ed25519", "EdDSA", "PS256"] },
  expiresWithSession: () => false,
  extraTokenClaims: (_context: Context, token: Token) =>
    token.kind === "AccessToken" ? { grant_id: token.grantId, resource_owner: token.accountId, provider } : undefined,
  features: features(options),
  findAccount: (_context: Context, accountId: string) => ({ accountId, claims: () => ({ sub: accountId }) }),
  interactions: { url: (_context: Context, { uid }: { readonly uid: string }) => `/interaction/${uid}` },
  issueRefreshToken: (_context: Context, client: Client) => client.grantTypeAllowed("refresh_token"),
  pairwiseIdentifier: (_context: Context, account: string, client: Client) => pairwiseSubject(account, client.clientId),
  pkce: { required: () => true },
  rotateRefreshToken: () => true,
  subjectTypes: ["pairwise"],
  ttl: { ...lifetimes, AccessToken: () => options.tokenLifetime, ClientCredentials: () => options.tokenLifetime }
})

/** The user signs in as whom the client names in `login_hint`, and allows whatever the client asks for. */
const signInAndConsent = async (
  server: Provider,
  request: http.IncomingMessage,
  response: http.ServerResponse,
  tell: GrantEvents["tell"]
) => {
  const { params } = await server.interactionDetails(request, response)
  const { client_id, login_hint, resource, scope } = params as Record<string, string>
  const grant = new server.Grant({ accountId: login_hint!, clientId: client_id! })
  grant.addResourceScope(resource!, scope!)
  const grantId = await grant.save()
  tell({
    type: "granted",
    grant: grantId,
    client_id: client_id!,
    subject: pairwiseSubject(login_hint!, client_id!),
    resource_owner: login_hint!,
    scopes: scope!.split(" ")
  })
  await server.interactionFinished(request, response, { login: { accountId: login_hint }, consent: { grantId } })
}

const listen = (server: http.Server, port: number): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once("error", reject)
    server.listen(port, "127.0.0.1", () => resolve((server.address() as AddressInfo).port))
  })

const close = (server: http.Server): Promise<void> =>
  new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })

/** Starts an authorization server that is closed with the scope. */
export const makeAuthorizationServer = (
  options: AuthorizationServerOptions
): Effect.Effect<AuthorizationServer, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(Effect.promise(() => start(options)), ({ server }) => Effect.promise(() => close(server))),
    ({ authorizationServer }) => authorizationServer
  )

const start = async (options: AuthorizationServerOptions) => {
  let handler: http.RequestListener = () => {}
  const server = http.createServer((request, response) => handler(request, response))
  const port = await listen(server, 0)
  const issuer = `http://127.0.0.1:${port}`

  const clientKey = await generateKey("ES256")
  const configuration = configure({ dpopNonces: false, tokenLifetime: 600, ...options }, clientKey)
  const requests: Array<string> = []
  const { delivered, subscribe, tell } = makeGrantEvents()
  let behaviour: "well" | "badly" | "never" = "well"
  let description: object | undefined
  const generate = () => generateKeys(options.agents.some(({ tokens }) => /^[PR]S256$/.test(tokens)))
  const first = await generate()
  let keys = first

  /** An `oidc-provider` cannot change its keys, so another one takes its place. */
  const serve = () => {
    const oidc = new Provider(issuer, { ...configuration, jwks: { keys } })
    oidc.use(async (context, next) => {
      await next()
      const token = context.oidc?.entities.RefreshToken
      if (description === undefined || token === undefined || context.path !== introspectionPath) return
      const { accountId: resource_owner, grantId: grant_id, resource: aud } = token
      context.body = { ...context.body as object, aud, grant_id, provider, resource_owner, ...description }
    })
    const callback = oidc.callback()
    oidc.on("grant.revoked", ({ oidc: { client } }, grant) => {
      tell({ type: "revoked", grant, client_id: client!.clientId })
    })
    handler = (request, response) => {
      requests.push(request.url!)
      if (behaviour === "never") return
      if (behaviour === "badly") response.writeHead(500).end()
      else if (!request.url!.startsWith("/interaction/")) void callback(request, response)
      else {
        signInAndConsent(oidc, request, response, tell).catch((error: unknown) =>
          response.writeHead(500).end(String(error))
        )
      }
    }
  }
  serve()

  const authorizationServer: AuthorizationServer = {
    issuer,
    agents: options.agents,
    clientKey,
    keys: () => keys,
    requests: () => requests,
    rotateKeys: Effect.promise(async () => {
      keys = [...await generate(), ...keys]
      serve()
    }),
    retireKeys: Effect.sync(() => {
      keys = keys.slice(0, first.length)
      serve()
    }),
    close: Effect.promise(() => close(server)),
    reopen: Effect.promise(() => listen(server, port).then(() => {})),
    behave: (how) => {
      behaviour = how
    },
    describeRefreshTokens: (members) => {
      description = members
    },
    subscribe,
    delivered
  }
  return { server, authorizationServer }
}
