/**
 * The payments example, killed after the acceptance is committed and before the client gets a response. It has no
 * workers, so that nothing else happens at that moment.
 */
import { Effect, Layer } from "effect"
import { options } from "../../../examples/payments/main.ts"
import * as GatewayApp from "../../../src/node/GatewayApp.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"

const DeadlyLedger = Layer.effect(
  OperationLedger,
  Effect.map(OperationLedger, (ledger) =>
    OperationLedger.of({
      ...ledger,
      accept: (grant, request) =>
        Effect.tap(ledger.accept(grant, request), () => Effect.sync(() => process.kill(process.pid, "SIGKILL")))
    }))
)

const { providers: _, ...withoutWorkers } = options

GatewayApp.run({ ...withoutWorkers, writes: Layer.provideMerge(DeadlyLedger, GatewayApp.WriteServices) })
