/**
 * The worker records an outcome once, and retries while the store is unavailable. The tests make the store fail on the
 * test's clock.
 */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import { away, reference } from "../../../fixtures/submission/World.ts"

const lost = "An answer of the provider is not recorded"

/** A rescue while the operation is under way. */
const rescued = w.act(({ ids, world }) =>
  Effect.flatMap(
    world.show(ids[0]!),
    ({ revision }) => world.ledger.transition(ids[0]!, revision, { state: "indeterminate" }, { by: "rescuer" })
  )
)

w.tell("The record of an outcome", {
  "is retried until the store is back, and the operation is not sent again": [
    w.store((queue, { calls }) => ({ record: (...args) => calls["record"]! <= 5 ? away : queue.record(...args) })),
    [w.accept(), w.workFor("1 minute"), w.is("submitted"), w.called("record", 6), w.sent(1)]
  ],
  "keeps no capacity: the next operation is sent before it is made": [
    w.policy({ concurrency: 1, providerConcurrency: 1 }),
    w.store((queue) => ({ record: (...args) => Effect.delay(queue.record(...args), "1 second") })),
    [w.accept(2), w.start(), w.pass("500 millis"), w.sent(2), w.pass("3 seconds"), w.stop]
  ],
  "is made once, even if the store's acknowledgement was lost": [
    [w.lostAnswer("record"), w.accept(), w.begin(), w.settle, w.called("record", 1), w.heals, w.pass("1 minute")],
    [w.join, w.called("record", 2), w.went("submitting submitted")]
  ],
  "after a rescue changes no state, and gives its reference to the status reader": [
    [w.answers(w.slowly("20 seconds")), w.accept(), w.begin(), w.pass("10 seconds"), rescued, w.pass("10 seconds")],
    [w.join, w.went("submitting indeterminate"), w.stored({ reference }), w.reconcile()],
    w.check(({ world }) => assert.strictEqual(world.reads[0]!.reference, reference))
  ],
  "is logged only if it was recorded: a rescued operation has no failure": [
    [w.answers(w.refused), w.accept(), w.begin(), w.pass("1 milli"), w.sent(1), rescued, w.pass("1 minute"), w.join],
    [w.sent(1), w.logged("Operation failed", 0)]
  ],
  "is not lost if the store is away from this worker alone until the claim is stale": [
    [w.loses("record"), w.accept(), w.begin(), w.pass("rescueAfter"), w.pass("10 minutes"), w.rescue()],
    [w.is("indeterminate"), w.heals, w.pass("2 seconds"), w.join, w.is("indeterminate"), w.stored({ reference })],
    [w.logged(lost, 0)]
  ],
  "is in the log if the store never takes it": [
    [
      w.loses("record"),
      w.accept(),
      w.workFor("40 minutes"),
      w.rescue(),
      w.is("indeterminate"),
      w.stored({ reference: null })
    ],
    w.logged(lost, ({ ids: [operation_id] }) => [
      ["ERROR", { operation_id, provider: "bank", proves: "submitted", reference, cause: "the connection was lost" }]
    ])
  ]
})
