/** The servers that the benchmark of reads compares. Each start makes a fresh process. */
import { Effect, type Scope } from "effect"
import { startGoPeer } from "../peers/goPeer.ts"
import type { PeerConfig } from "../peers/store.ts"
import { startGateway } from "../shared/gateway.ts"
import { forget, probeFlags } from "../shared/probing.ts"
import { type DatabaseAddress, startReady } from "../shared/processes.ts"

export interface Server {
  readonly pid: number
  /** On 127.0.0.1. */
  readonly port: number
}

export interface Contestant {
  readonly name: string
  /** Whether `probe.ts` can be loaded into it. */
  readonly isNode: boolean
  readonly start: (options: { readonly isProbed: boolean }) => Effect.Effect<Server, never, Scope.Scope>
}

export interface GatewayCommand {
  readonly command: string
  readonly flags: ReadonlyArray<string>
}

/** Names of the peers, as reports and goals show them. */
export const peerNames = {
  fastifyPg: "Fastify + pg",
  fastifyPgNamed: "Fastify + pg, named statements",
  fastifyPostgresJs: "Fastify + postgres.js",
  go: "Go + pgx"
} as const

/** The gateway, with a name and with settings of its own. */
export const gateway = (
  database: DatabaseAddress,
  { command, flags }: GatewayCommand,
  name = "gateway",
  environment: Readonly<Record<string, string>> = {}
): Contestant => ({
  name,
  isNode: true,
  start: ({ isProbed }) => startGateway({ database, command, environment, flags, isProbed })
})

const fastify = (script: string, name: string, config: PeerConfig): Contestant => ({
  name,
  isNode: true,
  start: ({ isProbed }) =>
    startReady<{ readonly port: number }>(`peers/${script}`, config, isProbed ? probeFlags : []).pipe(
      Effect.tap(({ pid }) => Effect.addFinalizer(() => forget(pid))),
      Effect.map(({ message, pid }) => ({ pid, port: message.port }))
    )
})

/** All peers; the last is Go's if there is a binary. */
export const peersOn = (database: DatabaseAddress, goBinary: string | null): ReadonlyArray<Contestant> => [
  fastify("fastifyPg.ts", peerNames.fastifyPg, { ...database, named: false }),
  fastify("fastifyPg.ts", peerNames.fastifyPgNamed, { ...database, named: true }),
  fastify("fastifyPostgresJs.ts", peerNames.fastifyPostgresJs, { ...database, named: true }),
  ...goBinary === null ? [] : [{
    name: peerNames.go,
    isNode: false,
    start: () => startGoPeer(goBinary, database)
  }]
]
