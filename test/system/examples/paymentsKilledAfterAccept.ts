/**
 * The payments example, killed after the acceptance is committed and before the client gets a response. It has no
 * workers, so that nothing else happens at that moment.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { Writes } from "../../../examples/payments/Application.ts"
import { makeProgram } from "../../../examples/payments/main.ts"
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

NodeRuntime.runMain(makeProgram({ writes: DeadlyLedger.pipe(Layer.provideMerge(Writes)), working: () => Layer.empty }))
