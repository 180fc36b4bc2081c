/** Waiters, reads of the feed and their failures are counted. The tests give the watcher a feed, and a test clock. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import type { ChangeToken } from "../../../src/domain/ChangeFeed.ts"
import { feedLayer } from "../../../src/metrics/HttpMetrics.ts"
import { ChangeWatcher } from "../../../src/server/waits/ChangeWatcher.ts"
import { topicOfOperation } from "../../../src/server/waits/Waiters.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { StoreUnavailable } from "../../../src/services/StoreUnavailable.ts"
import { fixedId, fixedIdentity, storeOf } from "../../fixtures/http/HttpFixed.ts"
import { counted } from "../../fixtures/metrics/Scrape.ts"

const unused = () => Effect.die("unused")

const token = "1" as ChangeToken

describe("The metrics of the change feed", () => {
  it.effect("count its reads and failures while a request waits, and none after that", () => {
    let isDown = false
    const feed: OperationFeed["Service"] = {
      since: unused,
      now: Effect.succeed(token),
      sinceInLedger: () =>
        Effect.suspend(() =>
          isDown
            ? Effect.fail(new StoreUnavailable({ cause: new Error("connection refused") }))
            : Effect.succeed({ changes: [], unfinished: null, next: token, has_more: false })
        )
    }
    const services = Layer.merge(
      Layer.succeed(OperationFeed, feed),
      Layer.succeed(OperationStore, storeOf({ find: unused, list: unused }))
    )
    const { layer, read } = counted(Layer.provide(ChangeWatcher.layer, services), feedLayer)
    const figures = Effect.map(read, ({ total }) => [
      total("gateway_waiters"),
      total("gateway_feed_reads_total", { outcome: "ok" }),
      total("gateway_feed_reads_total", { outcome: "failed" })
    ])
    return Effect.gen(function*() {
      const watcher = yield* ChangeWatcher
      assert.deepStrictEqual(yield* figures, [0, 0, 0])
      const waiter = { topic: topicOfOperation(fixedId), grant: fixedIdentity, wake: () => {} }
      const waiting = yield* Effect.forkChild(watcher.during(waiter, Effect.never))
      yield* TestClock.adjust(100)
      assert.deepStrictEqual(yield* figures, [1, 2, 0])
      isDown = true
      yield* TestClock.adjust(50)
      assert.deepStrictEqual(yield* figures, [1, 2, 1])
      yield* Fiber.interrupt(waiting)
      isDown = false
      yield* TestClock.adjust(10_000)
      assert.deepStrictEqual(yield* figures, [0, 2, 1])
    }).pipe(Effect.provide(layer))
  })
})
