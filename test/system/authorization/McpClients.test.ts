/**
 * The official MCP client finds its way from the URL of the endpoint to a token, and calls a tool with it. It knows nothing else of
 * the gateway or the authorization server, which are real.
 */
import { assert, layer } from "@effect/vitest"
import {
  Client,
  DpopSession,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  StreamableHTTPClientTransport,
  UnauthorizedError
} from "@modelcontextprotocol/client"
import { Effect, Redacted } from "effect"
import { decodeJwt } from "jose"
import { randomUUID } from "node:crypto"
import { browse } from "../../fixtures/authorization/Agent.ts"
import { type AgentClient, clientSecret, redirectUri } from "../../fixtures/authorization/AuthorizationServer.ts"
import { authorizedGateway, mcpUrl, type Setup } from "../../fixtures/authorization/AuthorizedGateway.ts"
import { Gateway } from "../../fixtures/http/HttpGateway.ts"
import { baseUrl } from "../../fixtures/http/HttpProblem.ts"

const agents: ReadonlyArray<AgentClient> = [
  { client_id: "plain", tokens: "ES256", authentication: "client_secret_basic", binding: "none" },
  { client_id: "bound", tokens: "ES256", authentication: "client_secret_basic", binding: "DPoP" }
]

const setup = (senderConstrained: "optional" | "required"): Setup => ({
  servers: [{ agents }],
  accept: ([server]) => ({
    issuers: [{ issuer: server!.issuer, audience: baseUrl, grantProvisioning: {} }],
    senderConstrained,
    // Where every token is bound, every DPoP proof needs a nonce as well.
    ...senderConstrained === "required" ? { dpop: { nonceKey: Redacted.make(new Uint8Array(32).fill(7)) } } : {}
  })
})

const form = (text: string) => encodeURIComponent(text).replaceAll("%20", "+")

/** An application that keeps what the client gives it, and a user who signs in and consents. */
const makeApplication = (client_id: string, dpop: DpopSession | undefined) => {
  const kept: { verifier?: string; tokens?: { readonly access_token: string; readonly token_type: string } } = {}
  let answer: URL | undefined
  let discovered: OAuthDiscoveryState | undefined
  const provider: OAuthClientProvider = {
    redirectUrl: redirectUri(client_id),
    clientMetadata: { redirect_uris: [redirectUri(client_id)] },
    clientInformation: () => ({ client_id, client_secret: clientSecret }),
    tokens: () => kept.tokens,
    saveTokens: (tokens) => {
      kept.tokens = tokens
    },
    saveCodeVerifier: (verifier) => {
      kept.verifier = verifier
    },
    codeVerifier: () => kept.verifier!,
    saveDiscoveryState: (state) => {
      discovered = state
    },
    discoveryState: () => discovered,
    redirectToAuthorization: async (url) => {
      url.searchParams.set("login_hint", `owner-${randomUUID()}`)
      answer = await browse(url, redirectUri(client_id))
    },
    addClientAuthentication: (headers) => {
      // The client does not encode the secret as RFC 6749 §2.3.1 requires.
      headers.set("authorization", `Basic ${btoa(`${form(client_id)}:${form(clientSecret)}`)}`)
    },
    ...dpop === undefined ? {} : { dpop: () => dpop }
  }
  return { provider, kept, answer: () => answer!.searchParams }
}

for (
  const [client_id, senderConstrained] of [["plain", "optional"], ["bound", "optional"], ["bound", "required"]] as const
) {
  layer(authorizedGateway(setup(senderConstrained)), { excludeTestServices: true })(
    `The official MCP client, with tokens that are ${client_id}, where sender constraint is ${senderConstrained}`,
    (it) => {
      it.effect("obtains a token for the MCP endpoint alone, and calls a tool with it", () =>
        Effect.gen(function*() {
          const { port } = yield* Gateway
          yield* Effect.promise(async () => {
            const dpop = client_id === "bound" ? await DpopSession.create() : undefined
            const { answer, kept, provider } = makeApplication(client_id, dpop)
            const makeTransport = () =>
              new StreamableHTTPClientTransport(new URL(mcpUrl), {
                authProvider: provider,
                fetch: (url, init) => fetch(String(url).replace(baseUrl, `http://127.0.0.1:${port}`), init)
              })
            const transport = makeTransport()
            const refused = await new Client({ name: "test", version: "1" }).connect(transport).then(
              () => null,
              (error: unknown) => error
            )
            assert.instanceOf(refused, UnauthorizedError)
            await transport.finishAuth(answer())
            assert.strictEqual(kept.tokens!.token_type.toLowerCase(), client_id === "bound" ? "dpop" : "bearer")
            const { aud, scope } = decodeJwt(kept.tokens!.access_token)
            assert.deepStrictEqual({ aud, scope }, { aud: mcpUrl, scope: "operations:read" })

            const client = new Client({ name: "test", version: "1" })
            await client.connect(makeTransport())
            try {
              const result = await client.callTool({ name: "list_operations", arguments: {} })
              assert.notStrictEqual(result.isError, true, JSON.stringify(result))
            } finally {
              await client.close()
            }
          })
        }))
    }
  )
}
