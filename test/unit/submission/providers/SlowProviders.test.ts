/**
 * Slow providers do not delay the operations of another provider, because each has places of its own. The tests run the
 * worker and the reconciler on the test's clock. The adapters take as long as the test says.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Clock, Duration, Effect, Exit } from "effect"
import { TestClock } from "effect/testing"
import { type Grant, ProviderName } from "../../../../src/domain/Grant.ts"
import type { ProviderOperation } from "../../../../src/domain/Submission.ts"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import { Reconciler } from "../../../../src/submission/reads/Reconciler.ts"
import { acknowledged, bank, makeWorld, type Script, unclear, type World } from "../../../fixtures/submission/World.ts"

const slow = [ProviderName.make("slow-1"), ProviderName.make("slow-2")]

/** Many times more operations than the worker has places. */
const backlog = 400

const takes = Duration.seconds(18)

/** A world whose slow providers are those of its first two grants. */
const makeSlowWorld = Effect.fnUntraced(function*(script: Script = {}) {
  const slowBindings = new Set<Grant["provider_connection_id"]>()
  const isSlow = ({ provider_connection_id }: ProviderOperation) => slowBindings.has(provider_connection_id)
  const world = yield* makeWorld({
    providers: slow,
    submit: (_, operation) => Effect.delay(Effect.succeed(acknowledged), isSlow(operation) ? takes : "10 millis"),
    ...script
  })
  const grants = yield* Effect.forEach(slow, (provider) => Effect.map(world.issue({ provider }), ({ grant }) => grant))
  const fill = Effect.forEach(grants, (grant) => world.acceptMany(backlog, grant), { discard: true })
  return { world, grants, fill, slowBindings }
})

const startOf = (world: World, id: string, events: "attempts" | "reads") => {
  const event = world[events].find((one) => one.id === id)
  assert.isDefined(event, `${id} has not begun`)
  return event!.at
}

describe("While two providers take 18 seconds for each operation and have long queues", () => {
  it.effect("a payment to a third provider starts with the next poll", () =>
    Effect.gen(function*() {
      const { fill, grants, slowBindings, world } = yield* makeSlowWorld()
      // Their first answers are fast: until then, a provider has few attempts under way.
      for (const grant of grants) yield* world.acceptMany(1, grant)
      yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("1 second")
      for (const grant of grants) slowBindings.add(grant.provider_connection_id)
      yield* fill
      yield* TestClock.adjust("5 seconds")
      for (let n = 0; n < 8; n++) {
        const accepted = yield* Clock.currentTimeMillis
        const id = yield* world.acceptOne
        yield* TestClock.adjust("7 seconds")
        const waited = startOf(world, id, "attempts") - accepted
        assert.isAtMost(waited, Duration.toMillis(world.policy.pollInterval), `payment ${n}`)
        assert.strictEqual(yield* world.stateOf(id), "submitted")
      }
      const slowOnes = world.attempts.slice(grants.length).filter(({ at }) => at < 10_000)
      assert.strictEqual(slowOnes.length, 64 - 10 + 1, "they have every other place")
    }))

  it.effect("a status read at a third provider happens when it is due", () =>
    Effect.gen(function*() {
      const slowBindings = new Set<Grant["provider_connection_id"]>()
      const { fill, grants, world } = yield* makeSlowWorld({
        submit: () => Effect.succeed(acknowledged),
        read: (_, { provider_connection_id }) =>
          Effect.delay(Effect.succeed(unclear), slowBindings.has(provider_connection_id) ? "14 seconds" : "10 millis")
      })
      for (const grant of grants) slowBindings.add(grant.provider_connection_id)
      yield* fill
      for (const provider of slow) yield* world.inside(world.worker.runOnce(provider, backlog))
      yield* world.start(Reconciler.layer)
      yield* TestClock.adjust("5 seconds")
      const { first, jitter } = world.policy.readSchedule
      const due = Duration.toMillis(first) * (1 + jitter)
      for (let n = 0; n < 6; n++) {
        const id = yield* world.acceptOne
        yield* world.inside(world.worker.runOnce(bank, 1))
        const submitted = yield* Clock.currentTimeMillis
        yield* TestClock.adjust("7 seconds")
        const waited = startOf(world, id, "reads") - submitted
        assert.isAtMost(waited, due + Duration.toMillis(world.policy.pollInterval), `read ${n}`)
      }
    }))
})

describe("A worker or a reconciler", () => {
  it.effect("refuses a policy with fewer places than providers", () =>
    Effect.gen(function*() {
      for (const [concurrency, isRefused] of [[2, true], [3, false]] as const) {
        const exit = yield* Effect.exit(Effect.scoped(makeSlowWorld({ policy: { concurrency } })))
        assert.strictEqual(Exit.isFailure(exit), isRefused)
        if (Exit.isFailure(exit)) {
          const { message } = Cause.squash(exit.cause) as Error
          assert.strictEqual(message, "concurrency must be at least 3: each of 3 providers needs one")
        }
      }
    }))
})
