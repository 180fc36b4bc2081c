/**
 * A worker returns its claim where nothing was sent, and does not return one that it no longer holds. The tests run a worker over the ledger in memory, on the test's clock.
 */
import { assert } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { CircuitBreaker } from "effect/persistence"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import { away, bank } from "../../../fixtures/submission/World.ts"

const tripsAtOnce = Layer.provide(
  CircuitBreaker.layer({ tripPolicy: CircuitBreaker.consecutive(1), openDuration: "1 hour" }),
  CircuitBreaker.layerStoreMemory()
)
const other = "another-bank" as typeof bank

w.tell("A claim is returned", {
  "when there is no adapter for its provider": [
    w.act((scene) =>
      Effect.gen(function*() {
        const { grant } = yield* scene.world.issue({ provider: other })
        scene.ids.push(...yield* scene.world.acceptMany(1, grant))
        yield* scene.world.inside(scene.world.worker.runOnce(other, 1))
      })
    ),
    w.returned("there is no adapter for another-bank")
  ],
  "when the circuit of its provider let no attempt through": [
    [w.given({ circuit: tripsAtOnce }), w.answers(w.reset), w.accept(), w.work(), w.accept(), w.workFor("sendWithin")],
    w.returned("the circuit of the provider let nothing through: CircuitOpen", 1)
  ],
  "when the worker is interrupted between two attempts": [
    [w.noCircuit, w.answers(w.refused), w.accept(), w.begin(), w.pass("10 millis"), w.interrupt],
    w.returned("the worker was stopped before it sent anything"),
    w.check(({ ids, world }) => {
      const line = world.logs.find(({ message }) => String(message).startsWith("Could not send an operation"))
      assert.strictEqual(line?.level, "WARN")
      const reason = "the worker was stopped before it sent anything"
      assert.deepStrictEqual(line?.annotations, { provider: bank, operation_id: ids[0], reason })
    })
  ],
  "again and again while the database is unavailable, until it has it": [
    w.store((queue, { calls }) => ({
      returnClaim: (...args) => calls["returnClaim"]! < 4 ? away : queue.returnClaim(...args)
    })),
    [w.answers(w.wrongKey), w.accept(), w.workFor("10 seconds"), w.called("returnClaim", 4), w.returned(/^401/)]
  ],
  "until it is stale, and then left to the rescuer": [
    [w.loses("returnClaim"), w.answers(w.wrongKey), w.accept(), w.begin(), w.pass("10 minutes")],
    // 90 seconds, with two between each.
    w.check(({ calls }) => assert.isBelow(calls["returnClaim"]!, 60))
  ]
})
