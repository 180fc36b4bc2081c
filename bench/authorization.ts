/**
 * `npm run bench:authorization`: compares single reads with a JWT access token (ES256) and with an opaque token of the
 * gateway, with the signature cache on and off. One process for each, on one database, in alternating rounds.
 *
 *   --quick    short rounds
 *   --json     the report as JSON on stdout
 *
 * Exits with 1 if a response was not 200. Linux only.
 */
import { DateTime, Effect } from "effect"
import { exportJWK, generateKeyPair, SignJWT } from "jose"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { parseArgs } from "node:util"
import { LocalPostgres } from "../src/node/embedded/LocalPostgres.ts"
import { type GrantRegistration, Grants } from "../src/services/Grants.ts"
import { type ServerConfig, startProcess, startServer } from "./child.ts"
import { grantFor, postmasterPid, prepareDatabase } from "./database.ts"
import { compare } from "./measure.ts"
import { peakMemoryOf } from "./proc.ts"
import type { Report } from "./report.ts"
import { runBenchmark, say } from "./run.ts"

const { values: options } = parseArgs({
  options: { quick: { type: "boolean", default: false }, json: { type: "boolean", default: false } }
})

const plan = options.quick
  ? { rounds: 3, connections: 64, warmUpSeconds: 1, seconds: 1 }
  : { rounds: 5, connections: 64, warmUpSeconds: 3, seconds: 5 }

/** The part of an authorization server that a verifier of JWTs needs: a key set. */
const keyServer = Effect.acquireRelease(
  Effect.promise(async () => {
    const { privateKey, publicKey } = await generateKeyPair("ES256")
    const keys = JSON.stringify({ keys: [{ ...await exportJWK(publicKey), kid: "one", alg: "ES256", use: "sig" }] })
    const server = createServer((_, response) => {
      response.writeHead(200, { "content-type": "application/json" }).end(keys)
    })
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve))
    const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    return { server, issuer, privateKey }
  }),
  ({ server }) => Effect.sync(() => void server.close())
)

/** A token for an hour. It names a grant of the owner, so it reads the same operations as the opaque token. */
const signToken = (issuer: string, key: CryptoKey, { client_id, subject }: ReturnType<typeof grantFor>) =>
  Effect.promise(() =>
    new SignJWT({ client_id, scope: "operations:read", grant_id: "grant-1" })
      .setProtectedHeader({ alg: "ES256", typ: "at+jwt", kid: "one" })
      .setIssuer(issuer).setAudience("http://127.0.0.1").setSubject(subject).setJti("1").setIssuedAt()
      .setExpirationTime("1 hour").sign(key)
  )

const benchmark = Effect.gen(function*() {
  yield* say("Seeding 100,000 operations …")
  const count = 100_000
  const [reader] = yield* prepareDatabase([count])
  const { issuer, privateKey } = yield* keyServer
  const grant = grantFor(`owner-of-${count}`)
  yield* Grants.use((grants) =>
    grants.register({
      ...grant,
      issuer: issuer as GrantRegistration["issuer"],
      grant: "grant-1" as GrantRegistration["grant"],
      expires_at: DateTime.addDuration(DateTime.nowUnsafe(), "1 hour")
    })
  )
  const token = yield* signToken(issuer, privateKey, grant)
  const { database, port, socketDirectory, username } = yield* LocalPostgres
  const config: ServerConfig = { database, port, socketDirectory, username, preparedPeer: false }
  const trusting = (signatureCache: number) => ({ ...config, issuer: { issuer, jwksUri: issuer, signatureCache } })
  const opaque = yield* startServer("gateway.ts", config)
  const cached = yield* startServer("gateway.ts", trusting(60))
  const uncached = yield* startServer("gateway.ts", trusting(0))
  const load = yield* startProcess("load.ts", { pinned: true })
  const postmaster = yield* postmasterPid
  const paths = reader!.ids.map((id) => `/v1/operations/${id}`)
  const comparisons: Array<Report["comparisons"][number]> = []
  for (
    const [name, server] of [["JWT, signatures cached", cached], ["JWT, each signature verified", uncached]] as const
  ) {
    yield* say(`Measuring: ${name} …`)
    const targets = [
      { name, server, token, paths },
      { name: "opaque", server: opaque, token: reader!.token, paths }
    ] as const
    comparisons.push(
      yield* compare(load, { name: "single read", targets, seconds: plan.seconds }, { ...plan, postmaster })
    )
  }
  return {
    comparisons,
    peakMemory: { opaque: peakMemoryOf(opaque.pid), cached: peakMemoryOf(cached.pid) }
  } satisfies Report
})

runBenchmark(benchmark, options)
