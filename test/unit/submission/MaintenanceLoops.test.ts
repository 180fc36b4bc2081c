/** The workers mark the changes every second and fold the counts every five, and neither delays the stop of its process. */
import { assert, it } from "@effect/vitest"
import { Effect, Exit, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { Maintenance } from "../../../src/services/queue/Maintenance.ts"
import { StoreUnavailable } from "../../../src/services/StoreUnavailable.ts"
import * as MaintenanceLoops from "../../../src/submission/MaintenanceLoops.ts"

/** Starts the loops. The cast: they call nothing else. */
const start = Effect.fnUntraced(function*(statements: Pick<Maintenance["Service"], "markChanges" | "foldCounts">) {
  const scope = yield* Scope.make()
  const maintenance = Layer.succeed(Maintenance, statements as unknown as Maintenance["Service"])
  yield* Layer.buildWithScope(Layer.provide(MaintenanceLoops.layer, maintenance), scope)
  return Scope.close(scope, Exit.void)
})

it.effect("The loops run at once and every one or five seconds, also after a failure, until their scope closes", () =>
  Effect.gen(function*() {
    const runs = { marks: 0, folds: 0 }
    const away = Effect.fail(new StoreUnavailable({ cause: new Error("the database is gone") }))
    const stop = yield* start({
      markChanges: Effect.sync(() => void runs.marks++),
      foldCounts: Effect.suspend(() => ++runs.folds === 2 ? away : Effect.void)
    })
    yield* TestClock.adjust("15 seconds")
    assert.deepStrictEqual(runs, { marks: 16, folds: 4 })
    yield* stop
    yield* TestClock.adjust("15 seconds")
    assert.deepStrictEqual(runs, { marks: 16, folds: 4 })
  }))

it.effect("The stop of a process does not wait for a statement that hangs", () =>
  Effect.gen(function*() {
    const hanging = Effect.uninterruptible(Effect.never)
    const stop = yield* start({ markChanges: hanging, foldCounts: hanging })
    yield* TestClock.adjust(1)
    yield* stop
  }))
