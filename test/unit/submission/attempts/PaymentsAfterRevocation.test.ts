/**
 * After consent was revoked, a client deactivated or a provider disconnected, a worker starts no further attempt to
 * send. The tests revoke while a worker retries a provider that refuses connections, and then start the provider.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Deferred, Duration, Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { freePort } from "../../../../bench/shared/freePort.ts"
import { type Grant } from "../../../../src/domain/Grant.ts"
import * as ProviderHttpClient from "../../../../src/node/http/ProviderHttpClient.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { SubmissionQueue } from "../../../../src/services/queue/SubmissionQueue.ts"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import { NotSent, ProviderAdapter } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { Providers } from "../../../../src/submission/providers/Providers.ts"
import * as SandboxProvider from "../../../../src/submission/providers/SandboxProvider.ts"
import { defaultPolicy, SubmissionPolicy } from "../../../../src/submission/SubmissionPolicy.ts"
import { accept, InMemoryLedger } from "../../../fixtures/ledger/Ledger.ts"
import { issueAtNewProvider } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { answering, rawServer, response } from "../../../fixtures/submission/HttpProviderServer.ts"
import { acknowledged, away, makeWorld, neverOpen, until, workFor } from "../../../fixtures/submission/World.ts"

const pending = (id: string) =>
  response(202, JSON.stringify({ reference: "sbx_1", idempotency_key: id, status: "pending" }))

/** Long enough for a busy machine. */
const policy = {
  ...defaultPolicy,
  sendWithin: Duration.minutes(5),
  rescueAfter: Duration.minutes(20),
  storeTimeout: Duration.minutes(1)
}

/**
 * A worker with one operation, whose provider refuses connections. The test stops the worker when it asks whether it may
 * retry, starts the provider, and lets the worker continue. A worker that does not ask is not stopped.
 */
const retrying = (meanwhile: (grant: Grant) => Effect.Effect<unknown, Error, Grants>) =>
  Effect.gen(function*() {
    const port = yield* freePort
    const { grant, identity } = yield* issueAtNewProvider()
    const { operation } = yield* accept(identity)
    const isRetrying = yield* Deferred.make<void>()
    const goOn = yield* Deferred.make<void>()
    const queue = yield* Queue
    const { readStatus, submit } = Context.get(
      yield* Layer.build(
        SandboxProvider.layer({ baseUrl: `http://127.0.0.1:${port}` }).pipe(Layer.provide(ProviderHttpClient.layer()))
      ),
      ProviderAdapter
    )
    let attempts = 0
    const submitNoticed: typeof submit = (operation, payload) =>
      Effect.andThen(
        Effect.suspend(() => ++attempts > 1 ? Deferred.succeed(isRetrying, void 0) : Effect.void),
        submit(operation, payload)
      )
    const worker = yield* Effect.flatMap(SubmissionWorker, Effect.succeed).pipe(
      Effect.provide(SubmissionWorker.layerManual),
      Effect.provide(neverOpen),
      Effect.provideService(SubmissionPolicy, policy),
      Effect.provideService(
        Providers,
        new Map([[grant.provider, ProviderAdapter.of({ readStatus, submit: submitNoticed })]])
      ),
      Effect.provideService(SubmissionQueue, {
        ...queue,
        mayStillSend: (claim) =>
          Deferred.succeed(isRetrying, void 0).pipe(
            Effect.andThen(Deferred.await(goOn)),
            Effect.andThen(queue.mayStillSend(claim))
          )
      })
    )
    const working = yield* Effect.forkChild(
      Effect.provideService(worker.runOnce(grant.provider, 1), SubmissionPolicy, policy)
    )
    yield* Deferred.await(isRetrying)
    yield* meanwhile(grant)
    const server = yield* rawServer(answering(pending(operation.id)), port)
    yield* Deferred.succeed(goOn, void 0)
    yield* Fiber.join(working)
    const shown = yield* OperationLedger.use((ledger) => ledger.show(operation.id))
    return { server, shown, history: yield* OperationLedger.use((ledger) => ledger.history(operation.id)) }
  })

const ways: Readonly<Record<string, (grant: Grant) => Effect.Effect<unknown, Error, Grants>>> = {
  "grants revoke": ({ grant_id }) => Grants.use((grants) => grants.revoke(grant_id)),
  "clients deactivate": ({ client_id }) => Grants.use((grants) => grants.setClientActive(client_id, false)),
  "providers disconnect": ({ provider_connection_id }) =>
    Grants.use((grants) => grants.setProviderConnected(provider_connection_id, false))
}

layer(InMemoryLedger, { excludeTestServices: true })("A payment whose provider refused connections", (it) => {
  it.effect("is sent once the provider is up, if consent still stands", () =>
    Effect.gen(function*() {
      const { server, shown } = yield* retrying(() => Effect.void)
      assert.strictEqual(shown.state, "submitted")
      assert.lengthOf(server.requests, 1)
    }))

  for (const [command, revoke] of Object.entries(ways)) {
    it.effect(`fails after \`${command}\`, and no byte of it reaches the provider that comes up later`, () =>
      Effect.gen(function*() {
        const { history, server, shown } = yield* retrying(revoke)
        assert.strictEqual(server.connections(), 0)
        assert.strictEqual(server.bytes(), 0)
        assert.deepInclude(shown, {
          state: "failed",
          failure: {
            code: "authorization_revoked",
            message: "The authorization ended before the provider took the operation; it will not be sent."
          }
        })
        assert.deepStrictEqual(history.map(({ to }) => to), ["accepted", "submitting", "failed"])
      }))
  }
})

const refused = Effect.fail(new NotSent({ reason: "connection refused" }))

describe("Before a worker retries an operation", () => {
  it.effect("it asks the store each time, except before the first attempt after its claim", () =>
    Effect.gen(function*() {
      const asked: Array<number> = []
      const world = yield* makeWorld({
        submit: (attempt) => attempt < 4 ? refused : Effect.succeed(acknowledged),
        queue: (queue) => ({
          mayStillSend: (claim) => {
            asked.push(world.attempts.length)
            return queue.mayStillSend(claim)
          }
        })
      })
      yield* world.acceptOne
      yield* workFor(world, "30 seconds")
      assert.deepStrictEqual(asked, [1, 2, 3])
      assert.lengthOf(world.attempts, 4)
    }))

  it.effect("it sends nothing while the store does not answer, and continues when the store answers again", () =>
    Effect.gen(function*() {
      let isAway = true
      const world = yield* makeWorld({
        submit: (attempt) => attempt === 1 ? refused : Effect.succeed(acknowledged),
        queue: (queue) => ({ mayStillSend: (claim) => isAway ? away : queue.mayStillSend(claim) })
      })
      const id = yield* world.acceptOne
      const working = yield* Effect.forkChild(world.work)
      yield* TestClock.adjust("10 seconds")
      assert.lengthOf(world.attempts, 1)
      isAway = false
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(working)
      assert.lengthOf(world.attempts, 2)
      assert.strictEqual(yield* world.stateOf(id), "submitted")
    }))

  for (const [what, answer] of [["does not answer", Effect.never], ["is unreachable", away]] as const) {
    it.effect(`the claim is returned by the send deadline if the store ${what} until then`, () =>
      Effect.gen(function*() {
        const world = yield* makeWorld({ submit: () => refused, queue: () => ({ mayStillSend: () => answer }) })
        const id = yield* world.acceptOne
        yield* workFor(world, Duration.sum(world.policy.sendWithin, world.policy.storeTimeout))
        assert.lengthOf(world.attempts, 1)
        assert.strictEqual(yield* world.stateOf(id), "submitting")
        assert.match(world.recordOf(id).return_reason ?? "", /^the database did not say in time/)
      }))
  }

  it.effect("a stop signal prevents another attempt, for every answer of the store", () =>
    Effect.gen(function*() {
      const answer = yield* Deferred.make<void>()
      let isAsked = false
      const world = yield* makeWorld({
        submit: () => refused,
        queue: (queue) => ({
          mayStillSend: (claim) => {
            isAsked = true
            return Effect.andThen(Deferred.await(answer), queue.mayStillSend(claim))
          }
        })
      })
      const id = yield* world.acceptOne
      const stop = yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("2 seconds")
      assert.isTrue(isAsked)
      const stopping = yield* Effect.forkChild(stop)
      yield* TestClock.adjust("1 second")
      yield* Deferred.succeed(answer, void 0)
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(stopping)
      assert.lengthOf(world.attempts, 1)
      assert.match(world.recordOf(id).return_reason ?? "", /^the worker was stopped between two attempts/)
    }))
})

describe("A worker whose drain time ends while it asks", () => {
  it.effect("sends nothing, and returns the claim", () =>
    Effect.gen(function*() {
      let isAsked = false
      const world = yield* makeWorld({
        policy: { drainTimeout: Duration.seconds(1) },
        submit: () => refused,
        queue: () => ({
          mayStillSend: () =>
            Effect.suspend(() => {
              isAsked = true
              return Effect.never
            })
        })
      })
      const id = yield* world.acceptOne
      const stop = yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("2 seconds")
      assert.isTrue(isAsked)
      const stopping = yield* Effect.forkChild(stop)
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(stopping)
      assert.lengthOf(world.attempts, 1)
      assert.match(world.recordOf(id).return_reason ?? "", /^the worker was stopped before it sent anything$/)
    }))
})

describe("A claim that the store answers late", () => {
  it.effect("is not sent if consent was revoked meanwhile", () =>
    Effect.gen(function*() {
      let isClaimed = false
      const world = yield* makeWorld({
        queue: (queue) => ({
          claim: (...args) =>
            queue.claim(...args).pipe(
              Effect.tap(() => Effect.sync(() => isClaimed = true)),
              Effect.tap(Effect.sleep("10 seconds"))
            )
        })
      })
      const id = yield* world.acceptOne
      const working = yield* Effect.forkChild(world.work)
      yield* until(() => isClaimed)
      yield* world.grants.revoke(world.grant.grant_id)
      yield* TestClock.adjust("11 seconds")
      yield* Fiber.join(working)
      assert.isEmpty(world.attempts)
      assert.strictEqual((yield* world.show(id)).failure?.code, "authorization_revoked")
      assert.deepStrictEqual(yield* world.evidenceOf(id), {
        by: "submission",
        reason: "no live grant, active client and connected provider allowed the operation any more"
      })
    }))
})
