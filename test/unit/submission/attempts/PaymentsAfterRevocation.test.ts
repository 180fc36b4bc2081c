/**
 * After consent was revoked, a client deactivated or a provider disconnected, a worker starts no further attempt to
 * send. The tests revoke while a worker retries a provider that refuses connections.
 */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { type Grant } from "../../../../src/domain/Grant.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import { NotSent } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { acknowledged, away, makeWorld, until, workFor } from "../../../fixtures/submission/World.ts"

const refused = Effect.fail(new NotSent({ reason: "connection refused" }))

const ways: Readonly<Record<string, (grant: Grant) => Effect.Effect<unknown, Error, Grants>>> = {
  "grants revoke": ({ grant_id }) => Grants.use((grants) => grants.revoke(grant_id)),
  "clients deactivate": ({ client_id }) => Grants.use((grants) => grants.setClientActive(client_id, false)),
  "providers disconnect": ({ provider_connection_id }) =>
    Grants.use((grants) => grants.setProviderConnected(provider_connection_id, false))
}

describe("A payment whose provider refused connections", () => {
  for (const [command, revoke] of Object.entries(ways)) {
    it.effect(`fails after \`${command}\`, and no byte of it reaches the provider that comes up later`, () =>
      Effect.gen(function*() {
        const world = yield* makeWorld({
          submit: (attempt) => attempt === 1 ? refused : Effect.succeed(acknowledged)
        })
        const id = yield* world.acceptOne
        const working = yield* Effect.forkChild(world.work)
        yield* until(() => world.attempts.length === 1)
        yield* Effect.provideService(revoke(world.grant), Grants, world.grants)
        yield* TestClock.adjust(world.policy.sendWithin)
        yield* Fiber.join(working)
        assert.lengthOf(world.attempts, 1)
        assert.deepStrictEqual({ ...(yield* world.show(id)).failure }, {
          code: "authorization_revoked",
          message: "The authorization ended before the provider took the operation; it will not be sent."
        })
        assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "failed"])
      }))
  }
})

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
