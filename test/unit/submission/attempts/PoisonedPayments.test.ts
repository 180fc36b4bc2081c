/**
 * Operations that the adapter can never encode, in any number, do not stop the others of their provider. The tests run a worker
 * over the ledger in memory, on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import { NotSent } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { acknowledged, bank, makeWorld, until } from "../../../fixtures/submission/World.ts"

describe("A client whose payments cannot be encoded", () => {
  it.effect("does not stop the payments of another client, with 200 of them returned", () =>
    Effect.gen(function*() {
      const poison = new Set<OperationId>()
      const world = yield* makeWorld({
        submit: (_, { id }) =>
          poison.has(id)
            ? Effect.fail(new NotSent({ reason: "it cannot be encoded", isLocal: true }))
            : Effect.succeed(acknowledged)
      })
      const { grant } = yield* world.issue({ provider: bank })
      for (const id of yield* world.acceptMany(200)) poison.add(id)
      yield* world.start(SubmissionWorker.layer)
      yield* until(() => world.attempts.length > 0)
      yield* TestClock.adjust("1 hour")
      const sent: Array<number> = []
      for (let n = 0; n < 20; n++) {
        const [id] = yield* world.acceptMany(1, grant)
        yield* TestClock.adjust("30 seconds")
        sent.push(world.attempts.filter((attempt) => attempt.id === id).length)
      }
      assert.deepStrictEqual(sent, sent.map(() => 1), "each within 30 seconds")
    }))
})
