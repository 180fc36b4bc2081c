/**
 * Tokens register the grant that they name, within the limits of events and revocations. The tests run gateways on one
 * ledger in memory on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, DateTime, Duration, Effect, Layer, Logger, type Scope as Lifetime } from "effect"
import { HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import type { AuthorizationDetails } from "../../../../src/domain/AuthorizationDetails.ts"
import {
  ClientId,
  externalGrantId,
  ExternalId,
  Issuer,
  operationsRead,
  PairwiseSubject,
  ProviderName,
  ResourceOwner,
  type Scope,
  scopeLimits
} from "../../../../src/domain/Grant.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { MemoryLedger } from "../../../../src/services/memory/MemoryLedger.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { validateGrantProvisioning } from "../../../../src/services/verification/GrantProvisioning.ts"
import { GrantVerifier } from "../../../../src/services/verification/GrantVerifier.ts"
import type { JwtIssuer } from "../../../../src/services/verification/OAuthVerifier.ts"
import { ProofReplay } from "../../../../src/services/verification/ProofReplay.ts"
import { everything } from "../../../fixtures/ledger/Ledger.ts"
import { makeFakeServer } from "../../../fixtures/oauth/FakeServer.ts"
import {
  audience,
  type Changes,
  credentialOf,
  epoch,
  issuer,
  signerOf,
  tokenOf
} from "../../../fixtures/oauth/Issuing.ts"
import { Platform } from "../../../fixtures/postgres/TestDatabase.ts"

const Services = Layer.mergeAll(Grants.layerMemory, OperationStore.layerMemory, ProofReplay.layerMemory).pipe(
  Layer.provideMerge(Layer.merge(MemoryLedger.layer, Platform))
)

/** Sets the time before the services start, because periodic services would run for all of the skipped time. */
const inServices = <A, E>(effect: Effect.Effect<A, E, Layer.Success<typeof Services> | Lifetime.Scope>) =>
  Effect.andThen(TestClock.setTime(epoch * 1000), effect.pipe(Effect.scoped, Effect.provide(Services)))

/** The names in the tokens of the grant. */
const names = {
  issuer: Issuer.make(issuer),
  client_id: ClientId.make("agent-1"),
  grant: ExternalId.make("grant-1"),
  subject: PairwiseSubject.make("subject-1"),
  resource_owner: ResourceOwner.make("owner"),
  provider: ProviderName.make("bank")
}

/** An authorization server, and gateways on one ledger that accept its tokens. */
const makeScene = Effect.gen(function*() {
  const signer = yield* signerOf("one")
  const { client } = makeFakeServer([signer.jwk])
  const store = yield* OperationStore

  /** Yields a function that reads with a token and returns the outcome. */
  const startGateway = Effect.fnUntraced(function*(options: Partial<JwtIssuer> = {}) {
    const gateway = yield* Layer.build(Layer.fresh(
      GrantVerifier.layerJwt({ issuer, audience, grantProvisioning: {}, ...options }).pipe(
        Layer.provide(Layer.succeed(HttpClient.HttpClient, client))
      )
    ))
    return (token: string) =>
      GrantVerifier.use((verifier) => verifier.verify(credentialOf(token))).pipe(
        Effect.flatMap((grant) => store.list(grant, everything)),
        Effect.match({
          onSuccess: () => "read",
          onFailure: (error) => error._tag === "GrantRevoked" ? error.reason : error._tag
        }),
        Effect.provide(gateway)
      )
  })
  const { provider, resource_owner } = names
  const issueToken = (claims: Changes = {}) =>
    tokenOf(signer, { resource_owner, provider, exp: epoch + 86_400, ...claims })
  return { issueToken, startGateway }
})

/** An event of the authorization server. */
const tell = (scopes: ReadonlyArray<Scope>, life: Duration.Input) =>
  Effect.flatMap(
    DateTime.now,
    (now) => Grants.use((grants) => grants.register({ ...names, scopes, expires_at: DateTime.addDuration(now, life) }))
  )

/** The grant of a client by its name in the tokens; null if there is none. */
const findGrant = (client: string) =>
  Effect.gen(function*() {
    const id = yield* externalGrantId(names.issuer, ClientId.make(client), names.grant)
    return yield* Grants.use((grants) => grants.show(id)).pipe(
      Effect.catchTag("GrantNotFound", () => Effect.succeed(null))
    )
  })

const limits: AuthorizationDetails = [{
  type: "financial_operations",
  max_amount: [{ currency: "EUR", amount: "100.00" }]
}]

describe("A token", () => {
  it.effect("registers its grant with the limits of the settings, which it keeps under other settings", () =>
    inServices(Effect.gen(function*() {
      const { issueToken, startGateway } = yield* makeScene
      const token = yield* issueToken()
      const read = yield* startGateway({ grantProvisioning: { authorizationDetails: limits } })
      assert.strictEqual(yield* read(token), "read")
      assert.deepStrictEqual((yield* findGrant("agent-1"))?.authorization_details, limits)
      const max_amount = [{ currency: "EUR", amount: "500.00" }]
      const readLater = yield* startGateway({
        grantProvisioning: { authorizationDetails: [{ type: "financial_operations", max_amount }] }
      })
      assert.strictEqual(yield* readLater(token), "read")
      assert.deepStrictEqual((yield* findGrant("agent-1"))?.authorization_details, limits)
      const invalid = [{ type: "financial_operations", max_amount: [{ currency: "EUR", amount: "0" }] }] as const
      assert.match(validateGrantProvisioning({ authorizationDetails: invalid })!, /limits of grants/)
    })))

  it.effect("neither widens nor prolongs a grant beyond an event, in any process and at any age", () =>
    inServices(Effect.gen(function*() {
      const { issueToken, startGateway } = yield* makeScene
      const read = yield* startGateway()
      const token = yield* issueToken()
      assert.strictEqual(yield* read(token), "read")
      const events = [
        ["InsufficientScope", tell([], "30 days")],
        ["read", tell([operationsRead], "1 hour")],
        ["expired", tell([operationsRead], 0)]
      ] as const
      for (const [answer, event] of events) {
        yield* TestClock.adjust("1 minute")
        yield* event
        const anotherProcess = yield* startGateway()
        assert.strictEqual(yield* read(token), answer)
        assert.strictEqual(yield* anotherProcess(token), answer)
        // By then, the process has dropped its cached registration.
        yield* TestClock.adjust("11 minutes")
        assert.strictEqual(yield* read(token), answer)
        assert.strictEqual(yield* (yield* startGateway())(yield* issueToken()), answer)
      }
    })))

  it.effect("registers no grant for a sender who does not hold its key", () =>
    inServices(Effect.gen(function*() {
      const { issueToken, startGateway } = yield* makeScene
      const read = yield* startGateway()
      assert.strictEqual(yield* read(yield* issueToken({ cnf: { jkt: "A".repeat(43) } })), "InvalidCredential")
      assert.isNull(yield* findGrant("agent-1"))
      assert.strictEqual(yield* read(yield* issueToken()), "read")
      assert.isNotNull(yield* findGrant("agent-1"))
    })))

  it.effect("with more scopes than its grant may have is refused with a warning, and no other token of the grant", () =>
    inServices(Effect.gen(function*() {
      const { issueToken, startGateway } = yield* makeScene
      const lines: Array<string> = []
      const logger = Logger.layer([Logger.make((entry) => void lines.push(Logger.formatJson.log(entry)))])
      const read = yield* startGateway()
      const scope = Array.from({ length: scopeLimits.count + 1 }, (_, n) => `s${n}`).join(" ")
      assert.strictEqual(yield* Effect.provide(read(yield* issueToken({ scope })), logger), "InvalidCredential")
      assert.strictEqual(yield* Effect.provide(read(yield* issueToken()), logger), "read")
      assert.lengthOf(lines, 1)
      assert.match(lines[0]!, /at most 100 scopes, of 4096 characters.*"level":"WARN"/)
    })))

  it.effect("registers its grant for the client behind the prefix, also if the client id begins with it", () =>
    inServices(Effect.gen(function*() {
      const { issueToken, startGateway } = yield* makeScene
      const read = yield* startGateway({ clientPrefix: "first/" })
      assert.strictEqual(yield* read(yield* issueToken({ client_id: "first/agent-1" })), "read")
      assert.isNull(yield* findGrant("first/agent-1"))
      assert.isNotNull(yield* findGrant("first/first/agent-1"))
    })))
})

describe("A grant that tokens register", () => {
  it.effect("is of the owner behind the prefix, and of no owner if the token names none", () =>
    inServices(Effect.gen(function*() {
      const { issueToken, startGateway } = yield* makeScene
      const read = yield* startGateway({ grantProvisioning: { ownerPrefix: "first/" } })
      for (const resource_owner of ["", "o".repeat(250), 1001]) {
        assert.strictEqual(yield* read(yield* issueToken({ resource_owner })), "InvalidCredential")
      }
      assert.strictEqual(yield* read(yield* issueToken({ resource_owner: "first/owner" })), "read")
      assert.strictEqual((yield* findGrant("agent-1"))?.resource_owner, "first/first/owner")
    })))

  const sweep = Grants.use((grants) => grants.revokeSubject(names))

  it.effect("is revoked by a later revocation, even if its server's clock is ahead within the tolerance", () =>
    inServices(Effect.gen(function*() {
      const { issueToken, startGateway } = yield* makeScene
      for (const clockTolerance of [0, 5, 60]) {
        const read = yield* startGateway({ clockTolerance: `${clockTolerance} seconds` })
        const now = (yield* DateTime.now).epochMilliseconds / 1000
        const token = yield* issueToken({ grant_id: `before-${clockTolerance}`, iat: now + clockTolerance })
        yield* TestClock.adjust("1 second")
        yield* sweep
        // The gateway sees the token only later.
        yield* TestClock.adjust("2 minutes")
        assert.strictEqual(yield* read(token), "revoked")
      }
    })))

  it.effect("is good if its first token is younger than a revocation by two seconds plus the clock tolerance", () =>
    inServices(Effect.gen(function*() {
      const { issueToken, startGateway } = yield* makeScene
      const read = yield* startGateway()
      yield* sweep
      yield* TestClock.adjust("6999 millis")
      const early = yield* issueToken({ grant_id: "early", iat: epoch + 6.999 })
      // An issue time in the future is not trusted.
      const ahead = yield* issueToken({ grant_id: "ahead", iat: epoch + 11 })
      assert.deepStrictEqual([yield* read(early), yield* read(ahead)], ["revoked", "revoked"])
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* read(yield* issueToken({ grant_id: "late", iat: epoch + 7 })), "read")
    })))

  it.effect("is refused to tokens that name another owner or provider, even when it is cached", () =>
    inServices(Effect.gen(function*() {
      const { issueToken, startGateway } = yield* makeScene
      const read = yield* startGateway()
      assert.strictEqual(yield* read(yield* issueToken()), "read")
      for (const claims of [{ resource_owner: "other" }, { provider: "broker" }, { resource_owner: undefined }]) {
        assert.strictEqual(yield* read(yield* issueToken(claims)), "InvalidCredential")
      }
      assert.strictEqual(yield* read(yield* issueToken()), "read")
    })))

  it.effect("is registered once in ten minutes for all tokens with the same content, also for simultaneous ones", () =>
    inServices(Effect.gen(function*() {
      const { issueToken, startGateway } = yield* makeScene
      const grants = yield* Grants
      let registrations = 0
      const counting = Grants.of({
        ...grants,
        register: (registration) =>
          Effect.andThen(
            Effect.sync(() => {
              registrations++
            }),
            Effect.andThen(Effect.yieldNow, grants.register(registration))
          )
      })
      const read = yield* Effect.provideService(startGateway(), Grants, counting)
      const tokens = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, n) => `token-${n}`),
        (jti) => issueToken({ jti })
      )
      const results = yield* Effect.forEach(tokens, read, { concurrency: "unbounded" })
      assert.deepStrictEqual(results, tokens.map(() => "read"))
      yield* TestClock.adjust("9 minutes")
      yield* read(tokens[0]!)
      assert.strictEqual(registrations, 1)
      yield* TestClock.adjust("1 minute")
      yield* read(tokens[0]!)
      assert.strictEqual(registrations, 2)
      yield* read(yield* issueToken({ scope: "operations:read" }))
      assert.strictEqual(registrations, 3)
    })))
})

describe("The settings of grant provisioning", () => {
  it("limit the life of grants to between a day and a hundred years", () => {
    for (const grantLifetime of ["1 day", "90 days", Duration.days(36_525), undefined] as const) {
      assert.isNull(validateGrantProvisioning(grantLifetime === undefined ? {} : { grantLifetime }))
    }
    for (const grantLifetime of ["23 hours", 0, Duration.days(36_526), Duration.infinity] as const) {
      assert.include(validateGrantProvisioning({ grantLifetime }) ?? "", "a day at least")
    }
  })
})

describe("The limits of a token", () => {
  it.effect("are those of the credential, and a token whose limits cannot be enforced is refused", () =>
    inServices(Effect.gen(function*() {
      const signer = yield* signerOf("one")
      const { client } = makeFakeServer([signer.jwk])
      const { verify } = Context.get(
        yield* Layer.build(
          GrantVerifier.layerJwt({ issuer, audience }).pipe(
            Layer.provide(Layer.succeed(HttpClient.HttpClient, client))
          )
        ),
        GrantVerifier
      )
      const limited = { type: "financial_operations", max_amount: [{ currency: "EUR", amount: "100.00" }] }
      const verified = (claims: Changes) =>
        Effect.flatMap(tokenOf(signer, claims), (token) => verify(credentialOf(token)))
      const identity = yield* verified({ authorization_details: [limited] })
      assert.deepStrictEqual<unknown>(identity.authorization_details, [limited])
      assert.isUndefined((yield* verified({})).authorization_details)
      const refused = yield* Effect.flip(verified({ authorization_details: [{ ...limited, approval: true }] }))
      assert.strictEqual(refused._tag, "InvalidCredential")
    })))
})
