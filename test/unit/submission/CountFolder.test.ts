/** The workers fold the counts of operations every five seconds. */
import { assert, it } from "@effect/vitest"
import { Effect, Exit, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { Maintenance } from "../../../src/services/Maintenance.ts"
import { StoreUnavailable } from "../../../src/services/StoreUnavailable.ts"
import * as CountFolder from "../../../src/submission/CountFolder.ts"

it.effect("The count folder folds at once and every five seconds, also after a failure, until its scope closes", () =>
  Effect.gen(function*() {
    let folds = 0
    const foldCounts = Effect.suspend(() =>
      ++folds === 2 ? Effect.fail(new StoreUnavailable({ cause: new Error("the database is gone") })) : Effect.void
    )
    // The cast: the folder calls nothing else.
    const queue = Layer.succeed(Maintenance, { foldCounts } as Maintenance["Service"])
    const scope = yield* Scope.make()
    yield* Layer.buildWithScope(Layer.provide(CountFolder.layer, queue), scope)
    yield* TestClock.adjust("15 seconds")
    assert.strictEqual(folds, 4)
    yield* Scope.close(scope, Exit.void)
    yield* TestClock.adjust("15 seconds")
    assert.strictEqual(folds, 4)
  }))
