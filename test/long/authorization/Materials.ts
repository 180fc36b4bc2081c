/** The materials of variants: tokens that a real authorization server issued to real agents. */
import { Effect } from "effect"
import { makeAgent } from "../../fixtures/authorization/Agent.ts"
import {
  type AgentClient,
  type AuthorizationServer,
  makeAuthorizationServer
} from "../../fixtures/authorization/AuthorizationServer.ts"
import { generateKeys, thumbprintOf } from "../../fixtures/authorization/Keys.ts"
import type { Materials } from "../../fixtures/authorization/Variants.ts"
import { baseUrl } from "../../fixtures/http/HttpProblem.ts"

/** One agent for each kind of JWT, and one whose tokens are bound to its key. */
export const agents = [
  { client_id: "es256", tokens: "ES256", authentication: "client_secret_basic", binding: "none" },
  { client_id: "eddsa", tokens: "EdDSA", authentication: "client_secret_basic", binding: "none" },
  { client_id: "ps256", tokens: "PS256", authentication: "client_secret_basic", binding: "none" },
  { client_id: "bound", tokens: "ES256", authentication: "private_key_jwt", binding: "DPoP" }
] as const satisfies ReadonlyArray<AgentClient>

/** Has an owner authorize each of them. */
export const gather = Effect.fnUntraced(function*(server: AuthorizationServer, audience: string) {
  const authorize = (client_id: string) =>
    Effect.promise(async () => {
      const agent = await makeAgent(server, client_id)
      const { access } = await agent.authorize({ account: "mallory", resource: audience })
      return { access, key: agent.key }
    })
  const bound = yield* authorize("bound")
  const materials: Materials = {
    issuer: server.issuer,
    audience,
    url: `${audience}/v1/operations`,
    keys: server.keys(),
    strangers: yield* Effect.promise(() => generateKeys()),
    agentKey: bound.key,
    agentThumbprint: yield* Effect.promise(() => thumbprintOf(bound.key)),
    tokens: [
      (yield* authorize("es256")).access,
      (yield* authorize("eddsa")).access,
      (yield* authorize("ps256")).access
    ],
    bound: bound.access
  }
  return materials
})

/** The tokens that a real authorization server issues to these agents for the gateway. */
export const gatherMaterials = Effect.flatMap(
  makeAuthorizationServer({ agents, resources: [baseUrl] }),
  (server) => gather(server, baseUrl)
)
