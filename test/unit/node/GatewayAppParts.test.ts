/**
 * Each part of `GatewayApp` can be replaced, and a part that misses a service does not compile. The tests run a process
 * without a database, on parts in memory.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Context, Deferred, Effect, Layer, Logger, Redacted } from "effect"
import { HttpRouter, HttpServer, HttpServerResponse } from "effect/http"
import { createServer } from "node:http"
import { InvalidCredential } from "../../../src/domain/Credential.ts"
import { type GrantIdentity, ProviderName } from "../../../src/domain/Grant.ts"
import * as GatewayApp from "../../../src/node/GatewayApp.ts"
import { Database } from "../../../src/node/postgres/Database.ts"
import { failureLine } from "../../../src/node/process/failureLine.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { MemoryLedger } from "../../../src/services/memory/MemoryLedger.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { Readiness } from "../../../src/services/Readiness.ts"
import { SubmissionQueue } from "../../../src/services/SubmissionQueue.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { ProviderAdapter } from "../../../src/submission/providers/ProviderAdapter.ts"
import { Providers } from "../../../src/submission/providers/Providers.ts"
import { Reconciler } from "../../../src/submission/reads/Reconciler.ts"
import { accept, issue } from "../../fixtures/ledger/Ledger.ts"
import { queueWith } from "../../fixtures/ledger/QueueServices.ts"

class Customers extends Context.Service<Customers, { readonly count: number }>()("test/Customers") {}

const CountCustomers = HttpRouter.add(
  "GET",
  "/customers",
  Effect.map(Customers, ({ count }) => HttpServerResponse.text(String(count)))
)

/** The sessions of the application. */
const sessions = new Map<string, GrantIdentity>()

/** A verifier of an application's sessions. It may use the services of the process, such as `Grants`. */
const SessionVerifier = Layer.effect(
  GrantVerifier,
  Effect.as(
    Grants,
    GrantVerifier.of({
      verify: ({ token }) =>
        Effect.mapError(Effect.fromNullishOr(sessions.get(Redacted.value(token))), () => new InvalidCredential())
    })
  )
)

const inMemory = {
  reads: Layer.mergeAll(OperationStore.layerMemory, OperationFeed.layerMemory, Readiness.layerAlways).pipe(
    Layer.provide(MemoryLedger.layer)
  ),
  writes: Layer.merge(Grants.layerMemory, OperationLedger.layerMemory).pipe(Layer.provide(MemoryLedger.layer)),
  verifier: SessionVerifier,
  database: Layer.succeed(Database, { isEmbedded: false, dataDirectory: null, connection: {} }),
  listener: NodeHttpServer.layerServer(createServer, { port: 0, host: "127.0.0.1" }),
  baseUrl: "https://gateway.test",
  migrate: false
} as const

const environment = (variables: Readonly<Record<string, string>>) =>
  ConfigProvider.layer(ConfigProvider.fromEnv({ env: variables }))

describe("The parts of GatewayApp", () => {
  it.live("can all be replaced: the process then needs neither a database nor the port of its settings", () =>
    Effect.gen(function*() {
      const address = yield* Deferred.make<string>()
      const Started = Layer.effectDiscard(Effect.gen(function*() {
        const { grant } = yield* issue()
        sessions.set("session", grant)
        yield* Deferred.succeed(
          address,
          yield* Effect.map(HttpServer.HttpServer, ({ address }) => HttpServer.formatAddress(address))
        )
      }))
      const app = GatewayApp.layer({ ...inMemory, routes: CountCustomers, started: Started })
      yield* Effect.forkScoped(
        Layer.launch(app).pipe(
          Effect.provide(Layer.mergeAll(Layer.succeed(Customers, { count: 7 }), environment({}), Logger.layer([])))
        )
      )
      const url = yield* Deferred.await(address)
      const ask = (path: string, token = "session") =>
        Effect.promise(async () => {
          const response = await fetch(url + path, { headers: { authorization: `Bearer ${token}` } })
          return [response.status, await response.text()] as const
        })
      assert.deepStrictEqual(yield* ask("/customers"), [200, "7"])
      assert.deepStrictEqual(yield* ask("/v1/operations"), [200, "{\"operations\":[],\"next_page_token\":null}"])
      assert.strictEqual((yield* ask("/v1/operations", "another"))[0], 401)
      assert.strictEqual((yield* ask("/mcp"))[0], 404, "an endpoint for agents is an option")
    }))

  it.live("include the reconciler, which takes hints of the routes also in a process without providers", () =>
    Effect.gen(function*() {
      const started = yield* Deferred.make<readonly [address: string, submitting: string, accepted: string]>()
      const Started = Layer.effectDiscard(Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const { identity } = yield* issue({ provider: ProviderName.make("bank") })
        const [one, two] = [(yield* accept(identity)).operation, (yield* accept(identity)).operation]
        yield* ledger.transition(one.id, 1, { state: "submitting" }, null)
        const address = yield* Effect.map(HttpServer.HttpServer, ({ address }) => HttpServer.formatAddress(address))
        yield* Deferred.succeed(started, [address, one.id, two.id])
      }))
      const Hints = HttpRouter.use(Effect.fnUntraced(function*(router) {
        const reconciler = yield* Reconciler
        yield* router.add("POST", "/hints", (request) =>
          request.text.pipe(
            Effect.flatMap((operation_id) => reconciler.hint(ProviderName.make("bank"), { operation_id })),
            Effect.map((isTaken) => HttpServerResponse.text(String(isTaken)))
          ))
      }))
      const app = GatewayApp.layer({
        ...inMemory,
        queue: SubmissionQueue.layerMemory.pipe(Layer.provide(MemoryLedger.layer)),
        routes: Hints,
        started: Started
      })
      yield* Effect.forkScoped(
        Layer.launch(app).pipe(Effect.provide(Layer.merge(environment({}), Logger.layer([]))))
      )
      const [address, submitting, accepted] = yield* Deferred.await(started)
      const hint = (body: string) =>
        Effect.promise(async () => (await fetch(`${address}/hints`, { method: "POST", body })).text())
      assert.strictEqual(yield* hint(submitting), "true")
      assert.strictEqual(yield* hint(accepted), "false")
    }))

  it("leave a missing service open in the type of the layer, and stop `run` from compiling", () => {
    const open: Layer.Layer<never, unknown, Customers> = GatewayApp.layer({ routes: CountCustomers })
    // @ts-expect-error -- `Customers` is missing
    const closed: Layer.Layer<never, unknown> = GatewayApp.layer({ routes: CountCustomers })
    // @ts-expect-error -- the error names `Customers`
    const start = () => GatewayApp.run({ routes: CountCustomers })
    const startComplete = () =>
      GatewayApp.run({
        routes: Layer.provide(
          HttpRouter.provideRequest(Layer.succeed(Customers, { count: 1 }))(CountCustomers),
          Layer.empty
        )
      })
    assert.lengthOf([open, closed, start, startComplete], 4)
  })

  it.live("fail to start on an invalid setting, with one sentence", () =>
    Effect.gen(function*() {
      const invalid = [
        [{ PORT: "0" }, "PORT must be a port from 1 to 65535"],
        [{ PORT: "none" }, "PORT must be a port from 1 to 65535"],
        [{ PORT: "70000" }, "PORT must be a port from 1 to 65535"],
        [{ MAX_CONNECTIONS: "many" }, "MAX_CONNECTIONS must be a number of connections, at least 1"],
        [{ RATE_LIMIT: "many" }, /^RATE_LIMIT: Expected a quota such as /],
        [{ ADMIN_PORT: "9464" }, /^ADMIN_PORT needs the option admin of GatewayApp/],
        [{ MAX_CONNECTIONS: "0" }, "MAX_CONNECTIONS must be a number of connections, at least 1"],
        // Without `cluster`.
        [{ DATABASE_SYNCHRONOUS: "required" }, /^DATABASE_SYNCHRONOUS is set, and the application has no cluster: /],
        [
          { DATABASE_READ_URL: "postgres://standby" },
          /^DATABASE_READ_URL is set, and the application has no cluster: /
        ],
        [{ WITNESS: "etcd://witness/gateway" }, /^WITNESS is set, and the application has no cluster: /],
        [{ REUSE_PORT: "perhaps" }, "REUSE_PORT must be true or false"],
        [{ PAYLOAD_KEYS: "short" }, /^PAYLOAD_KEYS must be /]
      ] as const
      for (const [variables, message] of invalid) {
        const failed = yield* Effect.flip(
          Layer.build(GatewayApp.layer(inMemory)).pipe(Effect.provide(environment(variables)))
        )
        if (typeof message === "string") assert.strictEqual(failureLine(failed), message)
        else assert.match(failureLine(failed), message)
      }
    }))

  it.live("have the quotas of the environment", () =>
    Effect.gen(function*() {
      const address = yield* Deferred.make<string>()
      const started = Layer.effectDiscard(Effect.gen(function*() {
        const { grant } = yield* issue()
        sessions.set("limited", grant)
        const { address: bound } = yield* HttpServer.HttpServer
        yield* Deferred.succeed(address, HttpServer.formatAddress(bound))
      }))
      yield* Effect.forkScoped(
        Layer.launch(GatewayApp.layer({ ...inMemory, started })).pipe(
          Effect.provide(Layer.merge(environment({ RATE_LIMIT: "1/h" }), Logger.layer([])))
        )
      )
      const url = `${yield* Deferred.await(address)}/v1/operations`
      const statuses: Array<number> = []
      for (let n = 0; n < 2; n++) {
        const answer = yield* Effect.promise(() => fetch(url, { headers: { authorization: "Bearer limited" } }))
        statuses.push(answer.status)
        assert.isNotNull(answer.headers.get("ratelimit-policy"))
      }
      assert.deepStrictEqual(statuses, [200, 429])
    }))

  it.live("name their workers by WORKER_ID, so that a restart settles the claims of a crash", () =>
    Effect.gen(function*() {
      const rescued = yield* Deferred.make<string>()
      const queue = queueWith(() => ({
        rescueClaimsOf: (worker) => Effect.as(Deferred.succeed(rescued, worker), 0)
      })).pipe(Layer.provide(SubmissionQueue.layerMemory), Layer.provide(MemoryLedger.layer))
      const providers = Providers.layer({
        bank: Layer.succeed(ProviderAdapter, { submit: () => Effect.never, readStatus: () => Effect.never })
      })
      yield* Effect.forkScoped(
        Layer.launch(GatewayApp.layer({ ...inMemory, queue, providers })).pipe(
          Effect.provide(Layer.merge(environment({ WORKER_ID: "worker-7" }), Logger.layer([])))
        )
      )
      assert.strictEqual(yield* Deferred.await(rescued), "worker-7")
    }))

  it.live("takes settings of the program before those of the environment", () =>
    Effect.gen(function*() {
      const failed = yield* Effect.flip(
        Layer.build(GatewayApp.layer({ ...inMemory, port: 70_000 })).pipe(Effect.provide(environment({ PORT: "3000" })))
      )
      assert.match((failed as Error).message, /^PORT must be/)
    }))
})
