/**
 * The payments example with a ledger that accepts when SIGUSR2 arrives. It prints a line with its process id when a
 * request waits.
 */
import { Deferred, Effect, Layer } from "effect"
import { options } from "../../../examples/payments/main.ts"
import * as GatewayApp from "../../../src/node/GatewayApp.ts"
import { Lifecycle } from "../../../src/server/gate/Lifecycle.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"

const released = Deferred.makeUnsafe<void>()
process.once("SIGUSR2", () => Deferred.doneUnsafe(released, Effect.void))

const SlowLedger = Layer.effect(
  OperationLedger,
  Effect.map(OperationLedger, (ledger) =>
    OperationLedger.of({
      ...ledger,
      accept: (...request) =>
        Effect.sync(() => process.stdout.write(`a request waits in ${process.pid}\n`)).pipe(
          Effect.andThen(Deferred.await(released)),
          Effect.andThen(ledger.accept(...request))
        )
    }))
)

GatewayApp.run({
  ...options,
  writes: Layer.provideMerge(SlowLedger, GatewayApp.WriteServices),
  lifecycle: Lifecycle.layer({ deadline: 60_000, drainTimeout: 60_000 })
})
