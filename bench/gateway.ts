/**
 * The gateway as in production: JIT-compiled schemas, a multiplexed read-only pool, tracing off, errors logged.
 */
// oxlint-disable-next-line import/no-unassigned-import -- it is all that the module is for
import "effect/schema/SchemaJITCompiler/enable"
import { NodeCrypto, NodeHttpServer, NodeRuntime, NodeServices } from "@effect/platform-node"
import { Effect, Layer, References } from "effect"
import { FetchHttpClient, HttpServer } from "effect/http"
import { randomUUID } from "node:crypto"
import type { RequestId } from "../src/domain/RequestId.ts"
import { allocateYoung } from "../src/node/allocateYoung.ts"
import { Database } from "../src/node/Database.ts"
import { createListener } from "../src/node/NodeListener.ts"
import { ListPool, ProbePool, ReaderPool } from "../src/node/Pools.ts"
import { BaseUrl } from "../src/server/BaseUrl.ts"
import { GatewayServer } from "../src/server/Gateway.ts"
import { Lifecycle } from "../src/server/Lifecycle.ts"
import { Grants } from "../src/services/Grants.ts"
import { OperationStore } from "../src/services/OperationStore.ts"
import { Readiness } from "../src/services/Readiness.ts"
import { GrantVerifier } from "../src/services/verification/GrantVerifier.ts"
import { ProofReplay } from "../src/services/verification/ProofReplay.ts"
import { configuration, reportPort, type ServerConfig } from "./child.ts"

allocateYoung()
const { database, issuer, port, socketDirectory, username } = configuration<ServerConfig>()
const baseUrl = "http://127.0.0.1"

const Benched = Layer.succeed(Database, {
  isEmbedded: false,
  dataDirectory: null,
  connection: { host: socketDirectory, port, username, database }
})

const Platform = Layer.mergeAll(NodeServices.layer, NodeCrypto.layerDigest, NodeCrypto.layerSecureRandom)

const Verifier = issuer === undefined ? GrantVerifier.layer : GrantVerifier.layerJwt({
  ...issuer,
  audience: baseUrl,
  signatureTimeToLive: `${issuer.signatureCache} seconds`
}).pipe(Layer.provide([ProofReplay.layer, Grants.layer, FetchHttpClient.layer]))

const Services = Layer.mergeAll(
  Verifier.pipe(Layer.provide(ReaderPool)),
  OperationStore.layer.pipe(Layer.provide([ReaderPool, ListPool])),
  Readiness.layer.pipe(Layer.provide(ProbePool)),
  Lifecycle.layer(),
  BaseUrl.layer(baseUrl)
)

const Report = Layer.effectDiscard(Effect.map(HttpServer.HttpServer, ({ address }) => {
  if ("port" in address) reportPort(address.port)
}))

const Server = Layer.mergeAll(GatewayServer, Report).pipe(
  Layer.provide(NodeHttpServer.layer(
    () => createListener({ baseUrl, newRequestId: () => randomUUID() as RequestId }),
    { port: 0, host: "127.0.0.1" }
  )),
  Layer.provide(Services),
  Layer.provide(Benched),
  Layer.provide(Platform)
)

Layer.launch(Server).pipe(
  Effect.provideService(References.TracerEnabled, false),
  Effect.provideService(References.MinimumLogLevel, "Error"),
  NodeRuntime.runMain
)
