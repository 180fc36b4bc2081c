/**
 * A hint leads to a status read at once, in this process or in another one, and only the read changes a state. The tests run the
 * reconciler against a scripted provider on the test's clock.
 */
import { assert } from "@effect/vitest"
import { Context, Duration, Effect, Fiber, Layer, Queue, Stream } from "effect"
import { TestClock } from "effect/testing"
import { ProviderName } from "../../../../src/domain/Grant.ts"
import { HintSignal } from "../../../../src/services/WorkSignals.ts"
import { Reconciler } from "../../../../src/submission/reads/Reconciler.ts"
import { defaultPolicy } from "../../../../src/submission/SubmissionPolicy.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import { bank, reference, succeeded } from "../../../fixtures/submission/World.ts"

/** A submitted operation whose status is read in an hour. Polls come once a day, so that only a wake-up leads to a read. */
const waits = [w.policy({ pollInterval: Duration.days(1) }), w.accept(), w.work(), w.due(3_600_000)]
const settles = [w.finds(succeeded), waits]
const settled = w.until(({ ids, world }) => world.recordOf(ids[0]!).operation.state === "succeeded")

/** The reconciler of a process, and the announcements between it and others. */
const start = Effect.fnUntraced(function*(
  { world }: w.Scene,
  layer: typeof Reconciler.layer | typeof Reconciler.layerHints = Reconciler.layer
) {
  const heard = yield* Queue.unbounded<ProviderName>()
  const announced: Array<ProviderName> = []
  const signal = {
    announce: (provider: ProviderName) => Effect.sync(() => void announced.push(provider)),
    announced: Stream.fromQueue(heard)
  }
  const context = yield* world.inside(Layer.build(layer)).pipe(Effect.provideService(HintSignal, signal))
  yield* TestClock.adjust("1 milli")
  const reconciler = Context.get(context, Reconciler)
  return { ...reconciler, announced, hear: (provider: ProviderName) => Queue.offer(heard, provider) }
})
type Process = Effect.Success<ReturnType<typeof start>>

/** What the process of a reconciler does. */
const inProcess = (
  steps: (process: Process, scene: w.Scene) => Effect.Effect<unknown, unknown>,
  layer?: typeof Reconciler.layerHints
): w.Step =>
(scene) => Effect.flatMap(start(scene, layer), (process) => steps(process, scene))

w.tell("A hint", {
  ...w.each(
    ["operation_id", "reference"],
    (about) => `by ${about} leads to a status read at once, which settles the operation`,
    (about) => [
      settles,
      inProcess(({ announced, hint }, { ids, world }) =>
        Effect.map(hint(bank, about === "reference" ? { reference } : { operation_id: ids[0]! }), (isTaken) => {
          assert.isTrue(isTaken)
          assert.isEmpty(world.reads, "until now")
          assert.isEmpty(announced, "the poller of this process is awake")
        })
      ),
      [settled, w.read(1), w.evidenceHas({ by: "status_read" })]
    ]
  ),
  "changes no state if the read proves nothing, and leads to one read an interval": [
    waits,
    w.policy({
      pollInterval: Duration.seconds(1),
      readSchedule: { ...defaultPolicy.readSchedule, first: Duration.hours(1) }
    }),
    inProcess(({ hint }, { ids, world }) =>
      Effect.gen(function*() {
        for (let second = 0; second < 60; second++) {
          for (let n = 0; n < 20; n++) yield* hint(bank, { operation_id: ids[0]! })
          yield* TestClock.adjust("1 second")
        }
        assert.isTrue(world.reads.length >= 6 && world.reads.length <= 13, String(world.reads.length))
      })
    ),
    w.went("submitting submitted")
  ],
  "in a process without workers wakes the reconcilers of others, and reads nothing itself": [
    settles,
    (scene) =>
      Effect.gen(function*() {
        const here = yield* start(scene, Reconciler.layerHints)
        const there = yield* start(scene)
        const about = { operation_id: scene.ids[0]! }
        assert.strictEqual(yield* here.runOnce(bank, 10), 0)
        assert.isTrue(yield* here.hint(bank, about))
        assert.deepStrictEqual(here.announced, [bank])
        assert.isEmpty(scene.world.reads)
        yield* there.hear(ProviderName.make("unknown-bank"))
        yield* there.hear(bank)
        yield* (settled as w.Act)(scene)
        // It is settled: there is nothing to announce.
        assert.isFalse(yield* here.hint(bank, about))
        assert.lengthOf(here.announced, 1)
      })
  ],
  "leads to a read soon, though the limit of the provider had no permit for the first one": [
    [
      settles,
      w.policy({ pollInterval: Duration.seconds(1) }),
      w.given({ limit: { requests: 50, interval: "1 second" } })
    ],
    // The next read by the schedule would be in an hour. Other processes reserve all permits that are open.
    w.alter({ reads: 40 }),
    w.store({
      reservePermits: () =>
        Effect.succeed({ submissions: { permits: [], again: 60_000 }, reads: { permits: [], again: 60_000 } })
    }),
    inProcess(({ hint }, { ids }) =>
      Effect.map(hint(bank, { operation_id: ids[0]! }), (isTaken) => assert.isTrue(isTaken))
    ),
    w.until(({ ids, world }) => world.recordOf(ids[0]!).reading_since !== null),
    w.until(({ ids, world }) => world.recordOf(ids[0]!).reading_since === null),
    [w.read(0), w.heals, w.pass("1 second", 5), w.read(1)]
  ],
  "with text that no operation can have reaches no statement": [
    waits,
    inProcess(({ hint }, { calls }) =>
      Effect.gen(function*() {
        for (const reference of ["", "\0", "x".repeat(1025), "\ud800"]) assert.isFalse(yield* hint(bank, { reference }))
        for (const operation_id of ["", "1", "' OR true --", "019AA4F0-5C00-7B1E-8D2F-3A4B5C6D7E8F"]) {
          assert.isFalse(yield* hint(bank, { operation_id }))
        }
        assert.isUndefined(calls["hint"])
        assert.isFalse(yield* hint(bank, { reference: "another" }))
      })
    ),
    w.called("hint", 1)
  ],
  "fails after storeTimeout if the database does not answer": [
    [waits, w.hangs("hint")],
    inProcess(({ hint }, { ids, world }) =>
      Effect.gen(function*() {
        const hinted = yield* Effect.forkChild(Effect.flip(hint(bank, { operation_id: ids[0]! })))
        yield* TestClock.adjust(world.policy.storeTimeout)
        assert.strictEqual((yield* Fiber.join(hinted))._tag, "StoreUnavailable")
      })
    )
  ],
  "is counted as taken or ignored, also in a process without workers": [
    waits,
    inProcess(
      ({ hint }, { ids }) =>
        Effect.forEach([ids[0]!, ids[0]!, "unknown"], (operation_id) => hint(bank, { operation_id })),
      Reconciler.layerHints
    ),
    w.measured("gateway_hints_total", 1, { provider: bank, result: "taken" }),
    w.measured("gateway_hints_total", 2, { provider: bank, result: "ignored" })
  ]
})
