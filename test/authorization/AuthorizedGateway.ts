/**
 * The gateway beside real authorization servers, composed as `serve` composes it, and agents that read through it.
 */
import { assert } from "@effect/vitest"
import { Clock, Context, DateTime, Duration, Effect, Layer } from "effect"
import { FetchHttpClient } from "effect/http"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import * as oauth from "oauth4webapi"
import {
  ClientId,
  ExternalId,
  type GrantIdentity,
  Issuer,
  PairwiseSubject,
  Provider,
  ResourceOwner,
  Scope
} from "../../src/domain/Grant.ts"
import type { IdempotencyKey } from "../../src/domain/Idempotency.ts"
import type { Operation } from "../../src/domain/Operation.ts"
import { Grants } from "../../src/services/Grants.ts"
import { OperationLedger } from "../../src/services/OperationLedger.ts"
import { OperationStore } from "../../src/services/OperationStore.ts"
import { Readiness } from "../../src/services/Readiness.ts"
import { GrantVerifier } from "../../src/services/verification/GrantVerifier.ts"
import type { IssuersOptions } from "../../src/services/verification/OAuthVerifier.ts"
import { ProofReplay } from "../../src/services/verification/ProofReplay.ts"
import { Gateway, gatewayOn, type GatewayOptions, type Request } from "../fixtures/HttpGateway.ts"
import { baseUrl } from "../fixtures/HttpProblem.ts"
import { type Answer, json } from "../fixtures/HttpWire.ts"
import { createDatabase, layerFor, Platform } from "../fixtures/TestDatabase.ts"
import { type Agent, certificate, makeAgent, type Tokens, type Wish } from "./Agent.ts"
import {
  type AuthorizationServer,
  type AuthorizationServerOptions,
  makeAuthorizationServer,
  provider
} from "./AuthorizationServer.ts"
import type { GrantEvent } from "./GrantEvents.ts"
import { makeProof, type ProofRequest } from "./Proofs.ts"

/** What a gateway of these tests is made of. */
export interface Setup extends GatewayOptions {
  readonly servers: ReadonlyArray<Omit<AuthorizationServerOptions, "resources">>
  /** What the gateway is configured to accept, once the servers are there. */
  readonly accept: (servers: ReadonlyArray<AuthorizationServer>) => IssuersOptions
  /** Accepts the tokens of `Grants.issue` beside them. */
  readonly own?: boolean
}

/** Another service, which has tokens of its own. */
export const otherService = "https://other.test"

/** What surrounds the gateway. */
export class Surroundings extends Context.Service<Surroundings, {
  readonly servers: ReadonlyArray<AuthorizationServer>
  /** The name of the database. */
  readonly database: string
  /** Sets the clock of the gateway forward, and that of nobody else. */
  readonly passTime: (time: Duration.Input) => void
}>()("test/Surroundings") {}

/** Reads pass through the first pool, which may not write; what verifiers write, through the second. */
const gatewayServices = ({ accept, own = false }: Setup) =>
  Layer.unwrap(Effect.map(Surroundings, ({ database, servers }) => {
    const readerPool = Layer.fresh(layerFor(database, {
      maxConnections: 4,
      startupParameters: { default_transaction_read_only: "on", statement_timeout: "1500" }
    }))
    const verifierPool = Layer.fresh(
      layerFor(database, { maxConnections: 2, startupParameters: { statement_timeout: "1500" } })
    )
    const verifier = Layer.unwrap(
      Effect.map(
        GrantVerifier,
        (opaque) => GrantVerifier.layerIssuers({ ...accept(servers), ...own ? { own: opaque } : {} })
      )
    ).pipe(
      Layer.provide(GrantVerifier.layer.pipe(Layer.provide(readerPool))),
      Layer.provide([ProofReplay.layer, Grants.layer]),
      Layer.provide([verifierPool, FetchHttpClient.layer])
    )
    return Layer.mergeAll(
      Layer.mergeAll(OperationStore.layer, Readiness.layer).pipe(Layer.provide(readerPool)),
      verifier
    )
  })).pipe(Layer.provide(Platform))

/** The clock of this machine, as far ahead as it was set. */
const makeClock = (clock: Clock.Clock) => {
  let ahead = 0n
  const millis = () => clock.currentTimeMillisUnsafe() + Number(ahead / 1_000_000n)
  const nanos = () => clock.currentTimeNanosUnsafe() + ahead
  const monotonic = () => clock.monotonicTimeNanosUnsafe() + ahead
  const shifted: Clock.Clock = {
    currentTimeMillisUnsafe: millis,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: monotonic,
    monotonicTimeNanos: Effect.sync(monotonic),
    sleep: (duration) => clock.sleep(duration)
  }
  return {
    shifted,
    passTime: (time: Duration.Input) => {
      ahead += BigInt(Duration.toMillis(time)) * 1_000_000n
    }
  }
}

const makeSurroundings = (setup: Setup) =>
  Layer.effectContext(Effect.gen(function*() {
    const { passTime, shifted } = makeClock(yield* Clock.Clock)
    const servers = yield* Effect.forEach(setup.servers, (options) =>
      makeAuthorizationServer({ ...options, resources: [baseUrl, otherService] }))
    const database = yield* createDatabase()
    return Context.make(Surroundings, { servers, database, passTime }).pipe(Context.add(Clock.Clock, shifted))
  })).pipe(Layer.provide(Platform))

/** The services that set the scene. Nothing of it need survive a crash. */
const SceneServices = Layer.unwrap(
  Effect.map(Surroundings, ({ database }) =>
    Layer.mergeAll(Grants.layer, OperationLedger.layer).pipe(
      Layer.provideMerge(
        Layer.fresh(layerFor(database, { maxConnections: 4, startupParameters: { synchronous_commit: "off" } }))
      )
    ))
).pipe(Layer.provide(Platform))

/** A gateway like the one at hand, on the same database: another process, as far as it can tell. */
export const anotherGateway = (setup: Setup) =>
  Effect.map(Layer.build(Layer.fresh(gatewayOn(gatewayServices(setup), setup))), Context.get(Gateway))

/** The gateway, on a PostgreSQL of its own. */
export const authorizedGateway = (setup: Setup) =>
  Layer.mergeAll(gatewayOn(gatewayServices(setup), setup), SceneServices).pipe(
    Layer.provideMerge(makeSurroundings(setup))
  )

/** Of the servers that there are, the first unless told. */
export const server = (index = 0) => Effect.map(Surroundings, ({ servers }) => servers[index]!)

/** An agent, and what the owner let it have. */
export interface Authorized {
  readonly agent: Agent
  readonly account: string
  readonly tokens: Tokens
  readonly issuer: string
}

/** Has an owner, of whom nobody has heard unless told, authorize an agent for the gateway. */
export const authorize = Effect.fnUntraced(function*(
  client_id: string,
  { from, ...wish }: Partial<Wish> & { readonly from?: AuthorizationServer } = {}
) {
  const issuer = from ?? (yield* server())
  const account = wish.account ?? `owner-${randomUUID()}`
  const agent = yield* Effect.promise(() => makeAgent(issuer, client_id))
  const tokens = yield* Effect.promise(() => agent.authorize({ resource: baseUrl, ...wish, account }))
  return { agent, account, tokens, issuer: issuer.issuer } satisfies Authorized
})

/** How an agent presents its token: as it is bound, with a proof where it needs one. */
export const presented = (
  { agent, tokens }: Authorized,
  target: string,
  proof: Partial<ProofRequest> = {}
): Request => {
  const token = tokens.access
  const [path] = target.split("?")
  switch (agent.client.binding) {
    case "none":
      return { token }
    case "certificate":
      return { token, headers: { "client-cert": `:${certificate}:` } }
    case "DPoP":
      return {
        headers: {
          authorization: `DPoP ${token}`,
          dpop: makeProof({ key: agent.key, token, url: baseUrl + path!, ...proof })
        }
      }
  }
}

/** Reads as the agent would. */
export const read = (holder: Authorized, target = "/v1/operations", proof: Partial<ProofRequest> = {}) =>
  Gateway.use(({ send }) => send(target, presented(holder, target, proof)))

/** Sends the request as `oauth4webapi` would have an agent send it, to where the gateway really is. */
export const readByLibrary = Effect.fnUntraced(function*({ agent, tokens }: Authorized, target = "/v1/operations") {
  const { port } = yield* Gateway
  return yield* Effect.promise(() =>
    oauth.protectedResourceRequest(tokens.access, "GET", new URL(baseUrl + target), new Headers(), null, {
      DPoP: agent.dpop,
      [oauth.customFetch]: (_url, { headers }) => fetch(`http://127.0.0.1:${port}${target}`, { headers })
    })
  )
})

/** What a list shows, by id. */
export const idsOf = (answer: Answer): ReadonlyArray<string> => {
  assert.strictEqual(answer.status, 200, answer.text)
  return (json(answer) as { readonly operations: ReadonlyArray<Operation> }).operations.map(({ id }) => id)
}

/** The identity of the one grant that the gateway knows of this owner and client. */
export const identityOf = Effect.fnUntraced(function*(account: string, client_id: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<GrantIdentity>`
    SELECT id AS grant_id, client_id, subject FROM grants
    WHERE resource_owner = ${account} AND client_id = ${client_id} ORDER BY created_at DESC LIMIT 1`
  assert.strictEqual(rows.length, 1, `a grant of ${account} for ${client_id}`)
  return rows[0]!
})

/** A new operation of an owner and a client that the gateway knows. */
export const submit = (account: string, client_id: string) =>
  Effect.flatMap(identityOf(account, client_id), (identity) =>
    OperationLedger.use((ledger) =>
      Effect.map(
        ledger.accept(identity, { type: "payment", key: randomUUID() as IdempotencyKey, payload: { amount: 1 } }),
        ({ operation }) => operation
      )
    ))

/** An agent whose grant the gateway has seen, and an operation of its. */
export const settled = Effect.fnUntraced(function*(client_id: string, wish: Partial<Wish> = {}) {
  const holder = yield* authorize(client_id, wish)
  assert.deepStrictEqual(idsOf(yield* read(holder)), [])
  return { holder, operation: yield* submit(holder.account, client_id) }
})

/** A team's webhook: what the authorization server tells becomes a row of the gateway, until the scope closes. */
export const connectWebhook = Effect.fnUntraced(function*({ delivered, issuer, subscribe }: AuthorizationServer) {
  const grants = yield* Grants
  const names = ({ client_id, grant }: GrantEvent) => ({
    issuer: Issuer.make(issuer),
    client_id: ClientId.make(client_id),
    grant: ExternalId.make(grant)
  })
  const receive = Effect.fnUntraced(function*(event: GrantEvent) {
    if (event.type === "revoked") return yield* Effect.asVoid(grants.revokeExternal(names(event)))
    const granted_at = yield* DateTime.now
    yield* grants.register({
      ...names(event),
      subject: PairwiseSubject.make(event.subject),
      resource_owner: ResourceOwner.make(event.resource_owner),
      provider: Provider.make(provider),
      scopes: event.scopes.map((scope) => Scope.make(scope)),
      expires_at: DateTime.addDuration(granted_at, Duration.days(90)),
      granted_at
    })
  })
  yield* Effect.acquireRelease(
    Effect.sync(() => subscribe((event) => Effect.runPromise(receive(event)))),
    (unsubscribe) => Effect.andThen(Effect.sync(unsubscribe), delivered)
  )
})
