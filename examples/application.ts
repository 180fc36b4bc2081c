/**
 * An application with its own server and sessions mounts the gateway's endpoints beside its own. `payments` shows an
 * application that `GatewayApp` runs.
 *
 *     npm run example:application
 *     curl -H 'Authorization: Bearer alice-session' http://127.0.0.1:3001/v1/operations
 *     curl http://127.0.0.1:3001/hello
 *
 * Copied from the installed package, it runs by `node examples/application.ts`.
 */
import { NodeCrypto, NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpRouter from "effect/http/HttpRouter"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import {
  ClientId,
  type GrantIdentity,
  operationsRead,
  PairwiseSubject,
  ProviderName,
  ResourceOwner
} from "financial-agents-gateway/domain/Grant"
import {
  BaseUrl,
  DocumentationRoutes,
  GatewayRoutes,
  Lifecycle,
  RequestIds
} from "financial-agents-gateway/server/Gateway"
import { Grants } from "financial-agents-gateway/services/Grants"
import { GrantVerifier, InvalidCredential } from "financial-agents-gateway/services/GrantVerifier"
import { MemoryLedger } from "financial-agents-gateway/services/MemoryLedger"
import { OperationFeed } from "financial-agents-gateway/services/OperationFeed"
import { IdempotencyKey, OperationLedger } from "financial-agents-gateway/services/OperationLedger"
import { OperationStore } from "financial-agents-gateway/services/OperationStore"
import { Readiness } from "financial-agents-gateway/services/Readiness"
import { createServer } from "node:http"

// The application's own API.
class AppApi extends HttpApi.make("application").add(
  HttpApiGroup.make("greetings").add(
    HttpApiEndpoint.get("hello", "/hello", { success: Schema.Struct({ message: Schema.String }) })
  )
) {}

const Greetings = HttpApiBuilder.group(
  AppApi,
  "greetings",
  (handlers) => handlers.handle("hello", () => Effect.succeed({ message: "The gateway is at /v1/operations." }))
)

// The ledger: in memory here, `.layer` with a SqlClient in production.
const Ledger = Layer.mergeAll(
  Grants.layerMemory,
  OperationLedger.layerMemory,
  OperationStore.layerMemory,
  OperationFeed.layerMemory
).pipe(
  Layer.provideMerge(MemoryLedger.layer)
)

/** The application's sessions. The gateway receives only the identity of a session's grant. */
const sessions = new Map<string, GrantIdentity>()

/** Replaces the gateway's verifier: finds the identity of a grant from a session. */
const SessionVerifier = Layer.succeed(GrantVerifier, {
  verify: ({ token }) =>
    Effect.mapError(Effect.fromNullishOr(sessions.get(Redacted.value(token))), () => new InvalidCredential())
})

/** Creates a session for Alice, and accepts a payment that she requested. */
const Alice = Layer.effectDiscard(Effect.gen(function*() {
  const grants = yield* Grants
  const ledger = yield* OperationLedger
  const { grant } = yield* grants.issue({
    resource_owner: ResourceOwner.make("alice"),
    subject: PairwiseSubject.make("alice-as-seen-by-the-app"),
    client_id: ClientId.make("the-app"),
    provider: ProviderName.make("alices-bank"),
    scopes: [operationsRead],
    expires_in: Duration.hours(8)
  })
  const identity = { grant_id: grant.grant_id, client_id: grant.client_id, subject: grant.subject }
  sessions.set("alice-session", identity)
  yield* ledger.accept(identity, {
    type: "payment",
    key: IdempotencyKey.make("order-17"),
    payload: { amount: "12.00", currency: "EUR" }
  })
}))

/** Serves both APIs on one router, and the documentation of both at /docs. */
export const Application = HttpRouter.serve(
  Layer.mergeAll(
    GatewayRoutes,
    HttpApiBuilder.layer(AppApi).pipe(Layer.provide(Greetings)),
    DocumentationRoutes(AppApi)
  ),
  { disableLogger: true, disableListenLog: true }
).pipe(
  Layer.provide([
    SessionVerifier,
    Readiness.layerAlways,
    Lifecycle.layer(),
    BaseUrl.layer("http://127.0.0.1:3001"),
    RequestIds.layer,
    Alice
  ]),
  Layer.provide(Ledger),
  Layer.provide(NodeCrypto.layer)
)

if (import.meta.main) {
  Layer.launch(Application.pipe(Layer.provide(NodeHttpServer.layer(createServer, { port: 3001, host: "127.0.0.1" }))))
    .pipe(NodeRuntime.runMain)
}
