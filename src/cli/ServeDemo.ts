/**
 * `serve --demo`: fills an empty embedded database, prints how to read it, and runs the operations. A later start issues another
 * grant for them.
 */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Database } from "../node/postgres/Database.ts"
import { WriterPool } from "../node/postgres/Pools.ts"
import { layerPayloadKeys } from "../node/process/PayloadKeys.ts"
import { Grants } from "../services/Grants.ts"
import { OperationLedger } from "../services/OperationLedger.ts"
import { fillWithDemo, instructions, invitation, narrate, reopenDemo } from "./Demo.ts"
import { DemoBank } from "./DemoBank.ts"

const DemoLedger = Layer.mergeAll(Grants.layer, OperationLedger.layer).pipe(
  Layer.provide(layerPayloadKeys),
  Layer.provide(WriterPool)
)

/** Fills an empty database, or finds the demo of an earlier start. Prints how to read it, and the changes of a new one. */
const showDemo = Effect.fn(function*(address: string) {
  const filled = yield* fillWithDemo
  const demo = filled ?? (yield* reopenDemo)
  yield* Console.log(demo === null ? instructions(address) : invitation(address, demo))
  if (filled !== null) yield* Effect.forkScoped(narrate(filled))
})

/** The demo, for an embedded database alone: a database that DATABASE_URL names may hold real operations. */
export const ServeDemo = (address: string) =>
  Layer.unwrap(Effect.map(Database, ({ isEmbedded }) =>
    isEmbedded
      ? DemoBank.pipe(Layer.provide(Layer.effectDiscard(showDemo(address)).pipe(Layer.provide(DemoLedger))))
      : Layer.effectDiscard(
        Effect.logWarning("--demo is ignored: it never touches a database that DATABASE_URL names")
      )))
