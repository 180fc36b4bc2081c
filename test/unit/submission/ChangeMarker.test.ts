/** The change marker marks every second, and never delays the stop of its process. */
import { assert, it } from "@effect/vitest"
import { Effect, Exit, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { Maintenance } from "../../../src/services/Maintenance.ts"
import * as ChangeMarker from "../../../src/submission/ChangeMarker.ts"

// The cast: the marker calls nothing else.
const queueThat = (markChanges: Effect.Effect<void>) =>
  Layer.succeed(Maintenance, { markChanges } as unknown as Maintenance["Service"])

it.effect("The change marker marks at once and every second, until its scope closes", () =>
  Effect.gen(function*() {
    let marks = 0
    const scope = yield* Scope.make()
    const queue = queueThat(Effect.sync(() => void marks++))
    yield* Layer.buildWithScope(Layer.provide(ChangeMarker.layer, queue), scope)
    yield* TestClock.adjust(3000)
    assert.strictEqual(marks, 4)
    yield* Scope.close(scope, Exit.void)
    yield* TestClock.adjust(3000)
    assert.strictEqual(marks, 4)
  }))

it.effect("The stop of a process does not wait for a mark whose statement hangs", () =>
  Effect.gen(function*() {
    const scope = yield* Scope.make()
    const hanging = queueThat(Effect.uninterruptible(Effect.never))
    yield* Layer.buildWithScope(Layer.provide(ChangeMarker.layer, hanging), scope)
    yield* TestClock.adjust(1)
    yield* Scope.close(scope, Exit.void)
  }))
