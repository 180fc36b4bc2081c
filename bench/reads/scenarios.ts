/** The scenarios of the benchmark of reads, with their goals. */
import type { Reader } from "../shared/database.ts"
import type { DatabaseAddress } from "../shared/processes.ts"
import type { Scenario, Target } from "./compare.ts"
import { type Contestant, gateway, type GatewayCommand, peerNames } from "./contestants.ts"
import type { LoadRequest } from "./load.ts"

/** For `--scenario`. */
export const scenarioKeys = ["read", "list", "healthz", "jwt", "growth", "mcp"] as const
type ScenarioKey = typeof scenarioKeys[number]

interface Setting {
  readonly database: DatabaseAddress
  readonly command: GatewayCommand
  readonly peers: ReadonlyArray<Contestant>
  readonly large: Reader
  readonly small: Reader
  readonly issuer: { readonly issuer: string; readonly token: string }
  /** Length of a round in seconds, given that of a full run. */
  readonly seconds: (full: number) => number
}

const { fastifyPg, go } = peerNames

/** The gateway against all peers. */
const againstPeers = ({ command, database, large, peers }: Setting, paths: ReadonlyArray<string>) =>
  [gateway(database, command), ...peers].map((contestant): Target => ({
    name: contestant.name,
    contestant,
    token: large.token,
    requests: paths.map((path) => ({ path }))
  }))

const readPaths = ({ large }: Setting) => large.ids.map((id) => `/v1/operations/${id}`)

/** JWT and opaque access tokens, which read the same operations of the same command. */
const tokens = (setting: Setting): ReadonlyArray<Target> => {
  const { command, database, issuer: { issuer, token }, large } = setting
  const target = (name: string, credential: string, signatureCache: number): Target => ({
    name,
    contestant: gateway(database, command, name, {
      OAUTH_ISSUERS: JSON.stringify([{ issuer, jwks_uri: issuer, signature_cache: signatureCache }])
    }),
    token: credential,
    requests: readPaths(setting).map((path) => ({ path }))
  })
  return [
    target("JWT, signature cached", token, 60),
    target("opaque token", large.token, 60),
    target("JWT, each signature verified", token, 0)
  ]
}

/** A tool call that reads an operation (MCP 2026-07-28). */
const readByTool = (id: string): LoadRequest => ({
  path: "/mcp",
  lines: [
    "Accept: application/json, text/event-stream",
    "MCP-Protocol-Version: 2026-07-28",
    "Mcp-Method: tools/call",
    "Mcp-Name: get_operation"
  ],
  body: JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: {
      name: "get_operation",
      arguments: { id },
      _meta: {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1" }
      }
    }
  })
})

/** Half of the small owner's operations, so that both lists have a next page. */
const owners = ({ command, database, large, small }: Setting): ReadonlyArray<Target> => {
  const listOf = (name: string, { token }: Reader): Target => ({
    name,
    contestant: gateway(database, command, name),
    token,
    requests: [{ path: "/v1/operations?page_size=50" }]
  })
  return [listOf("owner of few", small), listOf("owner of many", large)]
}

/** The same operations, read by the tool of agents and by HTTP. */
const agents = (setting: Setting): ReadonlyArray<Target> => {
  const { command, database, large } = setting
  const target = (name: string, requests: Target["requests"]): Target => ({
    name,
    contestant: gateway(database, command, name),
    token: large.token,
    requests
  })
  return [target("tool call", large.ids.map(readByTool)), target("read", readPaths(setting).map((path) => ({ path })))]
}

const scenarios: { readonly [Key in ScenarioKey]: (setting: Setting) => Scenario } = {
  read: (setting) => ({
    key: "read",
    name: "single read",
    targets: againstPeers(setting, readPaths(setting)),
    seconds: setting.seconds(5),
    isSame: true,
    goals: { atLeast: { [fastifyPg]: 5, [go]: 1.25 }, p99NotAbove: [go], peakMemory: 180 }
  }),
  list: (setting) => ({
    key: "list",
    name: "list of 100",
    targets: againstPeers(setting, ["/v1/operations"]),
    seconds: setting.seconds(5),
    isSame: true,
    goals: { atLeast: { [fastifyPg]: 3, [go]: 1.2 }, peakMemory: 250 }
  }),
  healthz: (setting) => ({
    key: "healthz",
    name: "healthz",
    // Both peers with `pg` would be the same: the request needs no statement.
    targets: againstPeers(setting, ["/healthz"]).filter(({ name }) => name !== peerNames.fastifyPgNamed),
    seconds: setting.seconds(2),
    isSame: true,
    goals: { atLeast: { [fastifyPg]: 1, [go]: 0.85 }, peakMemory: 140 }
  }),
  jwt: (setting) => ({
    key: "jwt",
    name: "single read with a JWT",
    targets: tokens(setting),
    seconds: setting.seconds(5),
    isSame: true,
    goals: { atLeast: { "opaque token": 0.9 } }
  }),
  growth: (setting) => ({
    key: "growth",
    name: "list of 50, by the owner's operations",
    targets: owners(setting),
    seconds: setting.seconds(2),
    isSame: false,
    goals: { atMost: { "owner of many": 1.1 } }
  }),
  mcp: (setting) => ({
    key: "mcp",
    name: "read by a tool call (MCP)",
    targets: agents(setting),
    seconds: setting.seconds(5),
    isSame: false,
    goals: { atLeast: { read: 0.33 } }
  })
}

/** The scenarios with these keys. */
export const scenariosFor = (keys: ReadonlyArray<ScenarioKey>, setting: Setting): ReadonlyArray<Scenario> =>
  scenarioKeys.filter((key) => keys.includes(key)).map((key) => scenarios[key](setting))
