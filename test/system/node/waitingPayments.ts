/** The payments example, which prints a line when it reads for a request, and when it reads changes for waiting requests. */
import { Effect, Layer } from "effect"
import { options } from "../../../examples/payments/main.ts"
import * as GatewayApp from "../../../src/node/GatewayApp.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"

const print = (line: string) => Effect.sync(() => process.stdout.write(`${line}\n`))

const TellingStore = Layer.effect(
  OperationStore,
  Effect.map(OperationStore, (store) =>
    OperationStore.of({
      ...store,
      find: (...read) => Effect.tap(store.find(...read), () => print("a request has read"))
    }))
)

const TellingFeed = Layer.effect(
  OperationFeed,
  Effect.map(OperationFeed, (feed) =>
    OperationFeed.of({
      ...feed,
      now: Effect.tap(feed.now, () => print("the watcher starts")),
      since: (...read) => Effect.tap(feed.since(...read), () => print("a request has read")),
      sinceInLedger: (...read) => Effect.tap(feed.sinceInLedger(...read), () => print("the watcher has read"))
    }))
)

GatewayApp.run({
  ...options,
  reads: Layer.provideMerge(Layer.merge(TellingStore, TellingFeed), GatewayApp.ReadServices)
})
